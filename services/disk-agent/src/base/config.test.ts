import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkConfig, loadConfig } from "@diskmesh/service";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { blockHostOf, configSchema } from "./config.js";

const tls = { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" };
const config = (change: object): Record<string, unknown> => ({
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
  it("a rule with only a glob makes whole files devices of the default pool", () => {
    const { discovery, devices } = configSchema.parse(config(rule({})));
    expect(devices).to.deep.equal([]);
    expect(discovery.rules[0]?.pools).to.deep.equal([
      { pool: "", minSizeBytes: 1, maxSizeBytes: Number.MAX_SAFE_INTEGER, blockSizeBytes: 4096 },
    ]);
  });

  const blockHosts: [string, object, string][] = [
    ["without an address of its own", {}, "127.0.0.1"],
    ["with an advertised address", { advertisedAddress: "host-1.example:7040" }, "host-1.example"],
    ["with an address in another network", { blockListen: { host: "10.1.0.1", port: 0 } }, "10.1.0.1"],
    [
      "at all addresses",
      { blockListen: { host: "::", port: 7041 }, advertisedAddress: "[2001:db8::1]:7040" },
      "2001:db8::1",
    ],
  ];
  for (const [title, change, host] of blockHosts)
    it(`other hosts reach the devices of an agent ${title} at ${host}`, () => {
      expect(blockHostOf(configSchema.parse(config(change)))).to.equal(host);
    });

  const bad: [string, object, RegExp][] = [
    ["a glob that is not an absolute path", rule({ glob: "dev/*" }), /must be an absolute path/],
    ["a glob with a line break", rule({ glob: "/dev/\n*" }), /must be an absolute path/],
    [
      "a glob of no characters",
      rule({ glob: "/dev/sd[z-a]" }),
      /discovery\.rules\.0\.glob .* is not a valid glob: Range out of/,
    ],
    [
      "a glob of too many paths",
      rule({ glob: "/dev/{1..9999}" }),
      /discovery\.rules\.0\.glob .* more than 1000 patterns/,
    ],
    ["a glob that is too long", rule({ glob: `/${"x".repeat(4_096)}` }), /at most 4096 characters/],
    ["an id prefix that no id has", rule({ idPrefix: "a.b" }), /idPrefix "a.b" is malformed/],
    ["no pool rule", rule({ pools: [] }), /pools/],
    [
      "a pool rule that no size fits",
      rule({ pools: [{ minSizeBytes: 2, maxSizeBytes: 1 }] }),
      /must not be above maxSizeBytes/,
    ],
    ["devices of half a block", rule({ pools: [{ deviceSizeBytes: 4_097 }] }), /multiple of blockSizeBytes/],
    [
      "a device whose path has a tab",
      { devices: [{ deviceId: "d", path: "/dev/a\tb" }] },
      /devices\.0\.path .*control char/,
    ],
    ["a field that nobody knows", rule({ regexp: ".*" }), /regexp/],
    ["no address to join at", { join: { tokenFile: "/token" } }, /join\.address/],
    ["an address to join at without a port", { join: { address: "10.0.0.5", tokenFile: "/token" } }, /join\.address/],
    ["an address to join at with port 0", { join: { address: "10.0.0.5:0", tokenFile: "/token" } }, /join\.address/],
    ["no token to join with", { join: { address: "10.0.0.5:7023" } }, /join\.tokenFile/],
    ["an empty token file", { join: { address: "10.0.0.5:7023", tokenFile: "" } }, /join\.tokenFile/],
    ["the engine of 0.1.0", { engine: "qemu" }, /^\["engine "qemu" was an engine of 0\.1\.0: write "auto"/],
    ["an unknown engine", { engine: "steam" }, /"auto"\|"node"\|"kernel"/],
    ["a token in place of its file", { join: { address: "10.0.0.5:7023", token: "dmj1.x" } }, /join.*token/],
  ];
  for (const [cause, change, says] of bad)
    it(`${cause} is refused`, () => {
      const parsed = configSchema.safeParse(config(change));
      expect(parsed.success).to.equal(false);
      expect(
        JSON.stringify(parsed.error?.issues.map(({ path, message }) => `${path.join(".")} ${message}`)).replaceAll(
          "\\",
          "",
        ),
      ).to.match(says);
    });

  const at = (deviceId: string, offsetBytes: number, sizeBytes?: number, path = "/dev/a") => ({
    ...{ deviceId, path, offsetBytes },
    ...(sizeBytes !== undefined && { sizeBytes }),
  });
  const places: [string, object[], string[]][] = [
    ["one after the other", [at("b", 4_096, 4_096), at("a", 0, 4_096)], []],
    ["at one place of two files", [at("a", 0, 4_096), at("b", 0, 4_096, "/dev/b")], []],
    ["over the end of one before", [at("a", 0, 8_192), at("b", 4_096, 4_096)], ["1 overlaps a on /dev/a"]],
    [
      "behind one that lies within a longer one",
      [at("long", 0, 40_960), at("within", 4_096, 4_096), at("behind", 12_288, 4_096)],
      ["1 overlaps long on /dev/a", "2 overlaps long on /dev/a"],
    ],
    ["behind one that goes to the file's end", [at("b", 8_192, 4_096), at("a", 0)], ["0 overlaps a on /dev/a"]],
    ["under one id", [at("a", 0, 4_096), at("a", 4_096, 4_096)], ["1.deviceId a is used twice"]],
  ];
  for (const [where, devices, says] of places)
    it(`two devices ${where} -> ${says.length === 0 ? "taken" : "refused"}`, () => {
      const parsed = configSchema.safeParse(config({ devices }));
      const issues = parsed.error?.issues.map(({ path, message }) => `${path.slice(1).join(".")} ${message}`) ?? [];
      expect(issues).to.have.members(says);
    });

  it("--check-config takes a token in place of TLS files that do not exist, and reads no token once they do", () => {
    const folder = temporaryFolder();
    const files = { caFile: "ca.pem", certFile: "cert.pem", keyFile: "key.pem" };
    const joining = { address: "10.0.0.5:7023", tokenFile: "token" };
    const file = join(folder, "agent.yaml");
    writeFileSync(file, JSON.stringify(config({ tls: files, join: joining, baseFolder: "base" })));
    const problems = () => checkConfig(configSchema, file).problems.join();
    expect(problems()).to.match(/cert\.pem does not exist, and join\.tokenFile gets none: ENOENT/);
    writeFileSync(join(folder, "token"), "dmj1.secret", { mode: 0o600 });
    expect(problems())
      .to.match(/join\.tokenFile gets none: the join token is malformed/)
      .and.not.contain("secret");
    writeFileSync(join(folder, "token"), `dmj1.0123456789ab.${"s".repeat(43)}.${"a".repeat(64)}\n`);
    expect(problems()).to.equal("");
    chmodSync(join(folder, "token"), 0o644);
    expect(checkConfig(configSchema, file).warnings.join()).to.contain("join.tokenFile");
    writeFileSync(join(folder, "cert.pem"), "nothing");
    expect(problems()).to.contain("cannot read the TLS file").and.not.contain("join");
  });

  it("a file with 4,096 devices is accepted", () => {
    const devices = Array.from({ length: 4_096 }, (_, n) => ({
      ...at(`host-1-device-${n}`, n * 4_096, 4_096, `/dev/disk/by-id/nvme-MZQL21T9HCJR-00A07_S64GNE0R${n}`),
      serialNumber: `S64GNE0R${n}`,
    }));
    const file = join(temporaryFolder(), "agent.yaml");
    const { devices: _, ...rest } = config({});
    writeFileSync(file, `${JSON.stringify(rest).slice(0, -1)}, "devices":\n${JSON.stringify(devices, undefined, 1)}}`);
    const loaded = loadConfig(configSchema, file);
    expect(loaded.config.devices).to.have.length(4_096);
  });

  it("thousands of devices on the same bytes are each reported once", () => {
    const devices = Array.from({ length: 3_000 }, (_, n) => at(`d${n}`, 0, 4_096));
    expect(configSchema.safeParse(config({ devices })).error?.issues).to.have.length(2_999);
  });
});
