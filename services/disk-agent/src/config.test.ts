import { expect } from "chai";
import { configSchema } from "./config.js";

const tls = { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" };
const config = (change: object) => ({
  hostId: "h1",
  az: "z1",
  listen: { host: "127.0.0.1", port: 0 },
  tls,
  registry: { address: "127.0.0.1:7030" },
  baseFolder: "/var/lib/agent",
  ...change,
});
const rule = (change: object) => ({ discovery: { rules: [{ glob: "/dev/nvme*", ...change }] } });

describe("the agent's configuration", () => {
  it("a rule with a glob alone -> whole files of the default pool", () => {
    const { discovery, devices } = configSchema.parse(config(rule({})));
    expect(devices).to.deep.equal([]);
    expect(discovery.rules[0]?.pools).to.deep.equal([
      { pool: "", minSizeBytes: 1, maxSizeBytes: Number.MAX_SAFE_INTEGER, blockSizeBytes: 4096 },
    ]);
  });

  const bad: [string, object, RegExp][] = [
    ["a glob that is no absolute path", rule({ glob: "dev/*" }), /must be an absolute path/],
    ["a glob with a line break", rule({ glob: "/dev/\n*" }), /must be an absolute path/],
    ["an id prefix that no id has", rule({ idPrefix: "a.b" }), /idPrefix "a.b" is malformed/],
    ["no pool rule", rule({ pools: [] }), /pools/],
    [
      "a pool rule that no size fits",
      rule({ pools: [{ minSizeBytes: 2, maxSizeBytes: 1 }] }),
      /must not be above maxSizeBytes/,
    ],
    ["devices of half a block", rule({ pools: [{ deviceSizeBytes: 4_097 }] }), /multiple of blockSizeBytes/],
    ["a field that nobody knows", rule({ regexp: ".*" }), /regexp/],
    [
      "a probe that is stalled before it is slow",
      { probes: { slowAfterMs: 5, stalledAfterMs: 5 } },
      /must be below stalledAfterMs/,
    ],
  ];
  for (const [cause, change, says] of bad)
    it(`${cause} -> refused`, () => {
      const parsed = configSchema.safeParse(config(change));
      expect(parsed.success).to.equal(false);
      expect(
        JSON.stringify(parsed.error?.issues.map(({ path, message }) => `${path.join(".")} ${message}`)).replaceAll(
          "\\",
          "",
        ),
      ).to.match(says);
    });
});
