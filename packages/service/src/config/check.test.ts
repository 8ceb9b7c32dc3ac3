import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { certificateFiles, createDevelopmentCertificates } from "@diskmesh/pki";
import { expect } from "chai";
import * as z from "zod";
import { checkConfig, loadConfig } from "./load.js";
import { keyPairConfig, listenConfig, tabletConfig, tlsConfig } from "./pieces.js";
import { partlySecretConfig, secretConfig } from "./schema.js";
import { serviceConfig } from "./service-config.js";

const user = z.strictObject({ name: z.string(), passwordHash: secretConfig(z.string().min(10)) });
const schema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  tablet: tabletConfig("sample"),
  users: z.array(user).default([]),
  properties: secretConfig(z.record(z.string(), z.string())).default({}),
  settings: partlySecretConfig(z.strictObject({ urls: z.array(z.string()) })).optional(),
  http: z.strictObject({ tls: keyPairConfig.optional() }).optional(),
});

const SECRET = "hunter2-hunter2";

describe("a config and the files that it names", () => {
  const folder = mkdtempSync(join(tmpdir(), "dm-check-"));
  const file = join(folder, "sample.yaml");
  before(async () => {
    await createDevelopmentCertificates(folder, { hostIds: [] });
  });
  after(() => rmSync(folder, { recursive: true }));

  const { caFile, certFile, keyFile } = certificateFiles("", "director");
  const TLS = { caFile, certFile, keyFile };
  const GOOD = { listen: { host: "a", port: 1 }, tls: TLS, tablet: { storage: "data" } };
  const write = (name: string, text: string, mode = 0o600): void => {
    writeFileSync(join(folder, name), text);
    chmodSync(join(folder, name), mode);
  };
  function check(change: object, mode = 0o600) {
    write("sample.yaml", JSON.stringify({ ...GOOD, ...change }), mode);
    return checkConfig(schema, file);
  }

  it("have no problems when correct", () => {
    for (const tls of [
      { certFile, keyFile },
      { certFile, keyFile, caFile },
    ])
      expect(check({ http: { tls } })).to.deep.include({ problems: [], warnings: [] });
  });

  it("have all their problems reported", () => {
    const { problems } = check({
      listen: { host: "a", port: 70_000 },
      tls: { ...TLS, caFile: "nowhere.pem", keyFile: certificateFiles("", "disk-registry").keyFile },
      http: { tls: { certFile: "sample.yaml", keyFile, caFile: "nothing.pem" } },
      colour: "red",
    });
    expect(problems).to.have.length(6);
    const all = problems.join("\n");
    for (const part of [
      /^listen\.port: 70000 does not fit: .*65535/m,
      /^colour: this key is not known/m,
      /^tls: cannot read the TLS file .*nowhere\.pem/m,
      /^tls: tls\.keyFile .* is not the key of the certificate/m,
      /^http\.tls: cannot read the TLS file .*nothing\.pem/m,
      /^http\.tls: tls\.certFile .* has no readable certificate in PEM/m,
    ])
      expect(all).to.match(part);
  });

  it("have secrets replaced by their files' contents, without the line break at the end", () => {
    write("hash", `${SECRET}\n`);
    write("properties.yaml", `password: ${SECRET}\n`);
    write("storage", `mongodb://ann:${SECRET}@db/state\n`);
    write("settings.yaml", "urls: [nats://n:1]\n");
    const secrets = {
      users: [{ name: "ann", passwordHashFile: "hash" }],
      propertiesFile: "properties.yaml",
      settingsFile: join(folder, "settings.yaml"),
      tablet: { storageFile: "storage" },
    };
    expect(check(secrets)).to.deep.include({ problems: [], warnings: [] });
    const { config } = loadConfig(schema, file);
    expect(config.users).to.deep.equal([{ name: "ann", passwordHash: SECRET }]);
    expect(config.properties).to.deep.equal({ password: SECRET });
    expect(config.settings).to.deep.equal({ urls: ["nats://n:1"] });
    expect(config.tablet.storage).to.equal(`mongodb://ann:${SECRET}@db/state`);
  });

  it("have a warning for each world-readable secret, and no problem", () => {
    write("hash", SECRET, 0o644);
    write("key.pem", "", 0o600);
    const shared = check({ users: [{ name: "ann", passwordHashFile: "hash" }] }, 0o644);
    expect(shared.problems).to.deep.equal([]);
    expect(shared.warnings).to.have.length(1);
    expect(shared.warnings[0]).to.match(/^users\.0\.passwordHashFile: all users .* may read .*hash.*chmod o-rwx/);
    chmodSync(join(folder, keyFile), 0o644);
    const inFile = check(
      { users: [{ name: "ann", passwordHash: SECRET }], tablet: { storage: `mongodb://ann:${SECRET}@db/state` } },
      0o644,
    );
    chmodSync(join(folder, keyFile), 0o600);
    const places = inFile.warnings.map((warning) => warning.split(":")[0]).sort();
    expect(places).to.deep.equal(["tablet.storage", "tls.keyFile", "users.0.passwordHash"]);
    expect(inFile.warnings.join()).not.to.contain(SECRET);
    // The address contains no secret.
    expect(check({ tablet: { storage: "mongodb://db/state" } }, 0o644).warnings).to.deep.equal([]);
  });

  const wrong: readonly [string, object, RegExp][] = [
    ["both forms", { properties: {}, propertiesFile: "hash" }, /^propertiesFile: properties is given, too/],
    ["a file that is not there", { propertiesFile: "none" }, /^propertiesFile: cannot read the secret from .*none: /],
    ["a file that is empty", { propertiesFile: "empty" }, /^propertiesFile: .* it is empty/],
    ["no path", { propertiesFile: 7 }, /^propertiesFile: give the path of a file/],
    ["no YAML in it", { propertiesFile: "broken" }, /^propertiesFile: cannot read the secret from .* not valid YAML/],
    ["another kind of thing in it", { propertiesFile: "hash" }, /^properties: this does not fit; it takes: mapping/],
    [
      "too short a one",
      { users: [{ name: "ann", passwordHash: "abc!!" }] },
      /^users\.0\.passwordHash: this does not fit: /,
    ],
    ["none", { users: [{ name: "ann" }] }, /^users\.0\.passwordHash: this key is missing.*or give passwordHashFile/],
  ];
  for (const [what, change, says] of wrong)
    it(`a secret with ${what} is refused: ${says.source}, and never shown`, () => {
      write("hash", SECRET);
      write("empty", "\n");
      write("broken", `password: [${SECRET}`);
      const { problems } = check(change);
      expect(problems).to.have.length(1);
      expect(problems[0]).to.match(says);
      expect(problems[0]).not.to.match(/hunter2|abc!!/);
    });
});
