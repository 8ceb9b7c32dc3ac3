import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import * as z from "zod";
import { ConfigError } from "./config-error.js";
import { variablesOf } from "./environment.js";
import { loadConfig } from "./load.js";
import { addressesConfig, listenConfig } from "./pieces.js";
import { secretConfig } from "./schema.js";
import { serviceConfig } from "./service-config.js";

const schema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  name: z.string().default("sample"),
  password: secretConfig(z.string()).optional(),
  address: addressesConfig.optional(),
  isOn: z.boolean().default(false),
  users: z.array(z.strictObject({ name: z.string() })).default([]),
  http: z.strictObject({ maxBodyBytes: z.int().default(5) }).optional(),
});

describe("the environment, beside a config", () => {
  const folder = mkdtempSync(join(tmpdir(), "dm-env-"));
  const file = join(folder, "sample.yaml");
  after(() => rmSync(folder, { recursive: true }));

  function load(env: Record<string, string>, text = "listen: { host: a, port: 1 }\npassword: in the file\n") {
    writeFileSync(file, text, { mode: 0o600 });
    return loadConfig(schema, { service: "disk-agent", file, env }).config;
  }

  it("overrides the file, with each key's type", () => {
    const config = load({
      DISKMESH_DISK_AGENT_LISTEN_PORT: "7040",
      DISKMESH_DISK_AGENT_LOG_LEVEL: "warn",
      DISKMESH_DISK_AGENT_NAME: "123",
      DISKMESH_DISK_AGENT_ADDRESS: "[a:1, b:2]",
      DISKMESH_DISK_AGENT_IS_ON: "true",
      DISKMESH_DISK_AGENT_USERS: "[{ name: ann }]",
      DISKMESH_DISK_AGENT_HTTP_MAX_BODY_BYTES: "7",
    });
    expect(config).to.deep.include({
      listen: { host: "a", port: 7040 },
      name: "123",
      address: ["a:1", "b:2"],
      isOn: true,
      users: [{ name: "ann" }],
      http: { maxBodyBytes: 7 },
    });
    expect(config.log.level).to.equal("warn");
    expect(load({ DISKMESH_DISK_AGENT_ADDRESS: "a:1" }).address).to.equal("a:1");
  });

  it("suffices where the file has no value", () => {
    const env = { DISKMESH_DISK_AGENT_LISTEN_HOST: "b", DISKMESH_DISK_AGENT_LISTEN_PORT: "2" };
    expect(load(env, "").listen).to.deep.equal({ host: "b", port: 2 });
  });

  it("replaces the other form of a secret in the file", () => {
    writeFileSync(join(folder, "secret"), "of a file\n", { mode: 0o600 });
    expect(load({ DISKMESH_DISK_AGENT_PASSWORD_FILE: "secret" }).password).to.equal("of a file");
    const inFile = "listen: { host: a, port: 1 }\npasswordFile: secret\n";
    expect(load({}, inFile).password).to.equal("of a file");
    expect(load({ DISKMESH_DISK_AGENT_PASSWORD: "of the environment" }, inFile).password).to.equal(
      "of the environment",
    );
  });

  it("ignores variables of other programs, and those that Kubernetes sets for a Service of the same name", () => {
    load({
      DISKMESH_DIRECTOR_NONSENSE: "1",
      DISKMESH_DISK: "x",
      DISKMESH_DISK_AGENT_SERVICE_HOST: "10.0.0.1",
      DISKMESH_DISK_AGENT_SERVICE_PORT: "7040",
      DISKMESH_DISK_AGENT_SERVICE_PORT_GRPC: "7040",
      DISKMESH_DISK_AGENT_PORT: "tcp://10.0.0.1:7040",
      DISKMESH_DISK_AGENT_PORT_7040_TCP: "tcp://10.0.0.1:7040",
      DISKMESH_DISK_AGENT_PORT_7040_TCP_ADDR: "10.0.0.1",
    });
  });

  const wrong: readonly [string, Record<string, string>, RegExp][] = [
    [
      "a variable of no key",
      { DISKMESH_DISK_AGENT_LOG_LEVLE: "warn" },
      /DISKMESH_DISK_AGENT_LOG_LEVLE: no key has this variable; did you mean DISKMESH_DISK_AGENT_LOG_LEVEL\?/,
    ],
    [
      "two letters in the other order",
      { DISKMESH_DISK_AGENT_LISTEN_PROT: "1" },
      /LISTEN_PROT: no key has this variable; did you mean DISKMESH_DISK_AGENT_LISTEN_PORT\?/,
    ],
    ["a variable that is like no other", { DISKMESH_DISK_AGENT_COLOUR: "red" }, /COLOUR: no key .*; unset it/],
    [
      "a value that does not fit",
      { DISKMESH_DISK_AGENT_LISTEN_PORT: "many" },
      /listen\.port \(of DISKMESH_DISK_AGENT_LISTEN_PORT\): "many" does not fit; it takes: whole number/,
    ],
    ["no YAML", { DISKMESH_DISK_AGENT_USERS: "[{" }, /DISKMESH_DISK_AGENT_USERS is not valid YAML/],
    ["a text for a number with a unit", { DISKMESH_DISK_AGENT_HTTP_MAX_BODY_BYTES: "7k" }, /"7k" does not fit/],
    [
      "two things at once",
      { DISKMESH_DISK_AGENT_NONSENSE: "1", DISKMESH_DISK_AGENT_IS_ON: "maybe" },
      /NONSENSE: no key .*; isOn \(of DISKMESH_DISK_AGENT_IS_ON\): "maybe" does not fit; it takes: true or false/,
    ],
  ];
  for (const [what, env, says] of wrong)
    it(`with ${what} is refused: ${says.source}`, () => {
      expect(() => load(env)).to.throw(ConfigError, says);
    });

  it("has a separate variable for each key, and none that Kubernetes sets", () => {
    const names = variablesOf("disk-agent", schema).map(({ name }) => name);
    expect(names).to.include.members(["DISKMESH_DISK_AGENT_PASSWORD", "DISKMESH_DISK_AGENT_PASSWORD_FILE"]);
    expect(new Set(names).size).to.equal(names.length);
  });
});
