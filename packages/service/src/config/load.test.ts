import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import * as z from "zod";
import { ConfigError } from "./config-error.js";
import { loadConfig } from "./load.js";
import { pathConfig } from "./path.js";
import { listenConfig, reachableLeader, tabletConfig, tlsConfig } from "./pieces.js";
import { serviceConfig } from "./service-config.js";

const schema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  dataFolder: pathConfig.prefault("data"),
});

const GOOD = `
listen: { host: 127.0.0.1, port: 7030 }
tls: { caFile: certs/ca.pem, certFile: ../cert.pem, keyFile: /etc/key.pem }
`;

/** YAML aliases that expand to a list of lists of lists, ten entries each. */
const BOMB = ["b", "c", "d", "e"].reduce((text, name, index) => {
  const former = "abcd"[index];
  return `${text}${name}: &${name} [${Array(10).fill(`*${former}`).join(", ")}]\n`;
}, "a: &a [x, x, x, x, x, x, x, x, x, x]\n");

describe("loadConfig", () => {
  const folder = mkdtempSync(join(tmpdir(), "dm-config-"));
  const file = join(folder, "etc", "registry.yaml");
  before(() => mkdirSync(join(folder, "etc")));
  after(() => rmSync(folder, { recursive: true }));

  function load(text: string | Buffer): z.output<typeof schema> {
    writeFileSync(file, text);
    return loadConfig(schema, file).config;
  }

  it("fills in defaults", () => {
    expect(load(GOOD)).to.deep.include({
      log: { level: "info" },
      telemetry: {},
      rpc: { maxConnectionsPerAddress: 2_000 },
      listen: { host: "127.0.0.1", port: 7030 },
    });
    expect(load(`${GOOD}rpc: { maxConnectionsPerAddress: 5 }`).rpc.maxConnectionsPerAddress).to.equal(5);
  });

  it("resolves paths from the folder of the file, defaults too", () => {
    expect(load(GOOD).tls).to.deep.equal({
      caFile: join(folder, "etc", "certs", "ca.pem"),
      certFile: join(folder, "cert.pem"),
      keyFile: "/etc/key.pem",
    });
    expect(load(GOOD).dataFolder).to.equal(join(folder, "etc", "data"));
  });

  it("accepts a tablet's storage as a folder beside the file, or as a database's address", () => {
    const withTablet = z.strictObject({ tablet: tabletConfig("registry") });
    const tabletOf = (text: string) => {
      writeFileSync(file, `tablet: ${text}`);
      return loadConfig(withTablet, file).config.tablet;
    };
    expect(tabletOf("{ storage: state }")).to.deep.equal({
      storage: join(folder, "etc", "state"),
      name: "registry",
      leaseTimeMs: 5_000,
    });
    const url = "mongodb://ann:secret@db-1:27017,db-2:27017/state?replicaSet=rs";
    expect(tabletOf(`{ storage: "${url}" }`).storage).to.equal(url);
    for (const nameless of [
      "mongodb://ann:secret@db-1",
      "mongodb://db-1:1,db-2:2/?replicaSet=a/b",
      "mongodb+srv://db/",
    ])
      expect(() => tabletOf(`{ storage: "${nameless}" }`), nameless)
        .to.throw(ConfigError, "tablet.storage: name the database, e.g. mongodb://db-1:27017/diskmesh")
        .with.property("message")
        .that.does.not.contain("secret");
    expect(() => tabletOf(`{ storage: "${url}", leaseTimeMs: 999 }`))
      .to.throw(ConfigError, "tablet.leaseTimeMs")
      .with.property("message")
      .that.does.not.contain("secret");
  });

  it("requires an address that standbys can redirect callers to", () => {
    const leader = reachableLeader(
      z.strictObject({
        listen: listenConfig,
        advertisedAddress: z.string().optional(),
        tablet: tabletConfig("registry"),
      }),
    );
    const load = (text: string | Buffer) => {
      writeFileSync(file, `listen: { host: 0.0.0.0, port: 7030 }\n${text}`);
      return loadConfig(leader, file).config;
    };
    load("tablet: { storage: state }");
    load("tablet: { storage: mongodb://db/state }\nadvertisedAddress: registry-1:7030");
    expect(() => load("tablet: { storage: mongodb://db/state }")).to.throw(ConfigError, "advertisedAddress: needed");
  });

  const wrong: readonly [string, string | Buffer, string[]][] = [
    ["an unknown key", `${GOOD}listne: 1`, ["listne: this key is not known; did you mean listen?"]],
    [
      "an unknown key inside",
      `${GOOD}rpc: { connectionsPerAddress: 1 }`,
      ["rpc.connectionsPerAddress", "did you mean rpc.maxConnectionsPerAddress?"],
    ],
    ["a key one level too high", `${GOOD}level: debug`, ["level: this key is not known; did you mean log.level?"]],
    ["a key that is like no other", `${GOOD}colour: red`, ["colour: this key is not known; remove it"]],
    [
      "a missing key",
      "listen: { host: a }",
      ["listen.port: this key is missing; it takes: whole number from 0 to 65535", "tls"],
    ],
    ["a wrong type", GOOD.replace("7030", "many"), ["listen.port", '"many" does not fit; it takes: whole number']],
    ["a value out of range", GOOD.replace("7030", "70000"), ["listen.port", "65535"]],
    ["a wrong word", `${GOOD}log: { level: loud }`, ["log.level", '"loud" does not fit; it takes: trace, debug, info']],
    ["metrics for everybody", `${GOOD}metrics: { listen: { host: "0.0.0.0", port: 9464 } }`, ["metrics.tls"]],
    ["an endpoint that is no URL", `${GOOD}telemetry: { otlpEndpoint: "ftp://x" }`, ["telemetry.otlpEndpoint"]],
    ["no YAML", "listen: [", ["not valid YAML", "line"]],
    ["an alias of nothing", `${GOOD}log: *secret`, ["an alias", "quotes"]],
    ["a key given twice", `${GOOD}listen: { host: b, port: 1 }`, ["not valid YAML"]],
    ["a file that is no config", "[".repeat(3_000_000), ["more than 2097152 bytes"]],
    ["lists without end", `${GOOD}log: ${"[".repeat(20_000)}`, ["nested too deep for a config"]],
    ["aliases without end", `${BOMB}${GOOD}`, ["too many aliases"]],
    [
      "a key's file",
      "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n",
      ["the file: this does not fit"],
    ],
    ["UTF-16", Buffer.from(`\ufeff${GOOD}`, "utf16le"), ["not UTF-8 text"]],
    ["an empty file", "", ["listen: this key is missing; it takes: mapping"]],
    ["a list", "[1]", ["the file: a list does not fit; it takes: mapping"]],
  ];
  for (const [what, text, parts] of wrong)
    it(`refuses ${what}, naming the file and the place in one line`, async () => {
      const { message } = await rejection(() => load(text), ConfigError);
      for (const part of [file, ...parts]) expect(message).to.contain(part);
      expect(message).not.to.contain("\n");
      expect(message).not.to.contain("secret");
    });
});
