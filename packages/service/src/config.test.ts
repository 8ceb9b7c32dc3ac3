import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { z } from "zod";
import {
  ConfigError,
  listenConfig,
  loadConfig,
  pathConfig,
  rpcLimitsConfig,
  serviceConfig,
  tlsConfig,
} from "./config.js";

const schema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  limits: rpcLimitsConfig,
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
  function problem(text: string): string {
    try {
      load(text);
    } catch (error) {
      expect(error).to.be.instanceOf(ConfigError);
      return (error as Error).message;
    }
    throw new Error("it was accepted");
  }

  it("fills in defaults", () => {
    expect(load(GOOD)).to.deep.include({
      log: { level: "info" },
      telemetry: {},
      stopTimeoutMs: 30_000,
      listen: { host: "127.0.0.1", port: 7030 },
    });
    expect(load(GOOD).limits).to.include({ maxConcurrentCalls: 1000, drainTimeoutMs: 10_000 });
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

  const wrong: readonly [string, string, string[]][] = [
    ["an unknown key", `${GOOD}listne: 1`, ["listne", "not known"]],
    ["an unknown key inside", `${GOOD}limits: { maxCalls: 1 }`, ["limits.maxCalls", "not known"]],
    ["a missing key", "listen: { host: a }", ["listen.port", "expected number", "tls"]],
    ["a wrong type", GOOD.replace("7030", "many"), ["listen.port", "expected number"]],
    ["a value out of range", GOOD.replace("7030", "70000"), ["listen.port", "65535"]],
    ["a wrong word", `${GOOD}log: { level: loud }`, ["log.level", '"info"']],
    ["an endpoint that is no URL", `${GOOD}telemetry: { otlpEndpoint: "ftp://x" }`, ["telemetry.otlpEndpoint"]],
    ["no YAML", "listen: [", ["not valid YAML", "line"]],
    ["a key given twice", `${GOOD}listen: { host: b, port: 1 }`, ["not valid YAML"]],
    ["an empty file", "", ["listen"]],
    ["a list", "[1]", ["expected object"]],
  ];
  for (const [what, text, parts] of wrong)
    it(`refuses ${what}, naming the file and the place in one line`, () => {
      const message = problem(text);
      for (const part of [file, ...parts]) expect(message).to.contain(part);
      expect(message).not.to.contain("\n");
    });
});
