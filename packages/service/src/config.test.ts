import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import * as z from "zod";
import {
  ConfigError,
  listenConfig,
  loadConfig,
  pathConfig,
  reachableLeader,
  rpcLimitsConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "./config.js";

const schema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  limits: rpcLimitsConfig(),
  dataFolder: pathConfig.prefault("data"),
});

const GOOD = `
listen: { host: 127.0.0.1, port: 7030 }
tls: { caFile: certs/ca.pem, certFile: ../cert.pem, keyFile: /etc/key.pem }
`;

describe("loadConfig", () => {
  const folder = mkdtempSync(join(tmpdir(), "dm-config-"));
  const file = join(folder, "etc", "registry.yaml");
  before(() => mkdirSync(join(folder, "etc")));
  after(() => rmSync(folder, { recursive: true }));

  function load(text: string): z.output<typeof schema> {
    writeFileSync(file, text);
    return loadConfig(schema, ["--config", file], {});
  }

  it("fills in defaults", () => {
    expect(load(GOOD)).to.deep.include({
      log: { level: "info", maxBacklogBytes: 1024 * 1024 },
      telemetry: {
        maxWaitingSpans: 2_048,
        traceHeartbeats: false,
        metricsIntervalMs: 60_000,
      },
      stopTimeoutMs: 4_500,
      listen: { host: "127.0.0.1", port: 7030 },
    });
    expect(load(GOOD).limits).to.include({ maxConcurrentCalls: 1000, drainTimeoutMs: 2_000 });
    expect(load(`${GOOD}limits: { maxConcurrentCalls: 5 }`).limits.maxConcurrentCalls).to.equal(5);
  });

  it("takes paths from the folder of the file, defaults too", () => {
    expect(load(GOOD).tls).to.deep.equal({
      caFile: join(folder, "etc", "certs", "ca.pem"),
      certFile: join(folder, "cert.pem"),
      keyFile: "/etc/key.pem",
    });
    expect(load(GOOD).dataFolder).to.equal(join(folder, "etc", "data"));
  });

  it("finds the file by argument before environment", () => {
    writeFileSync(file, GOOD);
    const env = { DISKMESH_CONFIG: file };
    expect(loadConfig(schema, [], env).listen.port).to.equal(7030);
    expect(loadConfig(schema, [`--config=${file}`], { DISKMESH_CONFIG: "/nowhere" }).listen.port).to.equal(7030);
    expect(() => loadConfig(schema, [], {})).to.throw(ConfigError, "--config FILE");
    expect(() => loadConfig(schema, ["--port", "1"], env)).to.throw(ConfigError, "--port");
    expect(() => loadConfig(schema, ["--config", "/nowhere.yaml"], {})).to.throw(ConfigError, "/nowhere.yaml");
  });

  it("takes the storage of a tablet as a folder beside the file, or as a database's address as it is", () => {
    const withTablet = z.strictObject({ tablet: tabletConfig("registry") });
    const tabletOf = (text: string) => {
      writeFileSync(file, `tablet: ${text}`);
      return loadConfig(withTablet, ["--config", file], {}).tablet;
    };
    expect(tabletOf("{ storage: state }")).to.deep.equal({
      storage: join(folder, "etc", "state"),
      name: "registry",
      lease: { timeMs: 5_000, safeTimeMs: 4_000, renewIntervalMs: 1_000 },
    });
    const url = "mongodb://ann:secret@db-1:27017,db-2:27017/state?replicaSet=rs";
    expect(tabletOf(`{ storage: "${url}" }`).storage).to.equal(url);
    for (const nameless of [
      "mongodb://ann:secret@db-1",
      "mongodb://db-1:1,db-2:2/?replicaSet=a/b",
      "mongodb+srv://db/",
    ])
      expect(() => tabletOf(`{ storage: "${nameless}" }`), nameless)
        .to.throw(ConfigError, "tablet.storage: name the database, as in mongodb://db-1:27017/diskmesh")
        .with.property("message")
        .that.does.not.contain("secret");
    for (const lease of ["{ timeMs: 3000 }", "{ safeTimeMs: 500 }", "{ timeMs: 0 }"])
      expect(() => tabletOf(`{ storage: "${url}", lease: ${lease} }`), lease)
        .to.throw(ConfigError, "tablet.lease")
        .with.property("message")
        .that.does.not.contain("secret");
  });

  it("wants an address that standbys can send callers to, where there are standbys", () => {
    const leader = reachableLeader(
      z.strictObject({
        listen: listenConfig,
        advertisedAddress: z.string().optional(),
        tablet: tabletConfig("registry"),
      }),
    );
    const load = (text: string) => {
      writeFileSync(file, `listen: { host: 0.0.0.0, port: 7030 }\n${text}`);
      return loadConfig(leader, ["--config", file], {});
    };
    load("tablet: { storage: state }");
    load("tablet: { storage: mongodb://db/state }\nadvertisedAddress: registry-1:7030");
    expect(() => load("tablet: { storage: mongodb://db/state }")).to.throw(ConfigError, "advertisedAddress: give one");
  });

  const wrong: readonly [string, string, string[]][] = [
    ["an unknown key", `${GOOD}listne: 1`, ["listne", "not known"]],
    ["an unknown key inside", `${GOOD}limits: { maxCalls: 1 }`, ["limits.maxCalls", "not known"]],
    ["a missing key", "listen: { host: a }", ["listen.port: this key is missing; give it (a number)", "tls"]],
    ["a wrong type", GOOD.replace("7030", "many"), ["listen.port", "expected number"]],
    ["a value out of range", GOOD.replace("7030", "70000"), ["listen.port", "65535"]],
    ["a wrong word", `${GOOD}log: { level: loud }`, ["log.level", '"info"']],
    ["metrics for everybody", `${GOOD}metrics: { listen: { host: "0.0.0.0", port: 9464 } }`, ["metrics.tls"]],
    ["an endpoint that is no URL", `${GOOD}telemetry: { otlpEndpoint: "ftp://x" }`, ["telemetry.otlpEndpoint"]],
    ["no YAML", "listen: [", ["not valid YAML", "line"]],
    ["an alias of nothing", `${GOOD}log: *secret`, ["an alias", "quotes"]],
    ["a key given twice", `${GOOD}listen: { host: b, port: 1 }`, ["not valid YAML"]],
    ["a file that is no config", "[".repeat(500_000), ["500000 characters"]],
    ["an empty file", "", ["listen: this key is missing; give it (a mapping of keys)"]],
    ["a list", "[1]", ["expected object"]],
  ];
  for (const [what, text, parts] of wrong)
    it(`refuses ${what}, naming the file and the place in one line`, async () => {
      const { message } = await rejection(() => load(text), ConfigError);
      for (const part of [file, ...parts]) expect(message).to.contain(part);
      expect(message).not.to.contain("\n");
      expect(message).not.to.contain("secret");
    });
});
