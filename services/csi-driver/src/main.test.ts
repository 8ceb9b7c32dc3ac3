import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";

const MAIN = fileURLToPath(new URL("./main.js", import.meta.url));
const CONFIG_ERROR = 78;
const TLS = { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" };

describe("the CSI driver does not start", () => {
  const node = { instanceId: "i-1", az: "z1" };
  const cases: Record<string, [config: object, modes: string[], endpoint: string, says: RegExp]> = {
    "without a mode": [
      { node },
      [],
      "unix:///s.sock",
      /no mode is given: add --controller, --node, --docker, or several/,
    ],
    "without the config of its mode": [
      { node },
      ["--controller"],
      "unix:///s.sock",
      /no `controller`, which --controller/,
    ],
    "for Docker without a controller": [
      { node, docker: { diskType: "default" } },
      ["--docker"],
      "",
      /no `controller`, which --docker/,
    ],
    "without a socket": [{ node }, ["--node"], "tcp://127.0.0.1:1", /CSI_ENDPOINT is .*tcp:.*give the socket/],
    "with both a host and an instance": [
      { node: { ...node, hostId: "h1" } },
      ["--node"],
      "unix:///s.sock",
      /node: give either hostId or instanceId/,
    ],
    "with a host that is none": [
      { node: { hostId: "h/1", az: "z1" } },
      ["--node"],
      "unix:///s.sock",
      /node\.hostId: .*malformed/,
    ],
    ...Object.fromEntries(
      [{ hostId: "" }, { hostId: "x".repeat(64) }, { hostId: "h1-" }, { instanceId: "a/b" }, { instanceId: "i-" }].map(
        (id): [string, [object, string[], string, RegExp]] => [
          `with the node ${JSON.stringify(id)}`,
          [{ node: { az: "z1", ...id } }, ["--node"], "unix:///s.sock", /node\.(hostId|instanceId): /],
        ],
      ),
    ),
    ...Object.fromEntries(
      [{}, { cluster: "a b" }, { cluster: "" }, { cluster: "k", deployment: "web" }, { cluster: 5 }].map(
        (owner): [string, [object, string[], string, RegExp]] => [
          `with a controller of ${JSON.stringify(owner)}`,
          [
            { controller: { director: { address: "10.0.0.1:7010" }, tls: TLS, azs: ["z1"], ...owner } },
            ["--controller"],
            "unix:///s.sock",
            /controller(\.cluster)?: /,
          ],
        ],
      ),
    ),
    "with an AZ that is no topology of Kubernetes": [
      { node: { ...node, az: "z/1" } },
      ["--node"],
      "unix:///s.sock",
      /node\.az: Kubernetes allows 63 letters/,
    ],
  };
  for (const [what, [config, modes, endpoint, says]] of Object.entries(cases))
    it(`${what}, and says so`, () => {
      const file = join(temporaryFolder(), "csi-driver.yaml");
      writeFileSync(file, JSON.stringify(config));
      const env = { ...process.env, CSI_ENDPOINT: endpoint };
      const { status, stderr } = spawnSync(process.execPath, [MAIN, ...modes, "--config", file], {
        env,
        encoding: "utf8",
      });
      expect(stderr).to.match(says);
      expect(status).to.equal(CONFIG_ERROR);
    });
});
