import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { VERSION } from "@diskmesh/domain";
import { hashPassword } from "@diskmesh/pki/password-hash";
import { EXIT_CODES, fileKey, pathText } from "@diskmesh/service";
import { type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { exampleOf } from "./configuration/examples.js";
import { configurationPage } from "./configuration/page.js";
import { CONFIGS, configKeys } from "./configuration/services.js";
import { repositoryFolder } from "./repository-folder.js";

const SERVICES = [...CONFIGS.keys()];
const PASSWORD = "hunter2-hunter2";
const read = (path: string): string => readFileSync(join(repositoryFolder, path), "utf8");

describe("the keys of configs", () => {
  it("are what docs/reference/configuration.md says: else run `npm run configuration`", () => {
    expect(read("docs/reference/configuration.md")).to.equal(configurationPage());
  });

  for (const service of SERVICES) {
    const keys = configKeys(service);

    it(`of the ${service} have a description each`, () => {
      const without = keys.filter(({ facts }) => !/^.{3,}[.:]$/s.test(facts.description ?? ""));
      expect(without.map(({ path }) => pathText(path))).to.deep.equal([]);
    });

    it(`of the ${service} are none that names a secret's file`, () => {
      const paths = new Set(keys.map(({ path }) => pathText(path)));
      for (const key of keys) {
        const inFile = fileKey(key);
        if (inFile) expect(paths.has(pathText(inFile)), pathText(inFile)).to.equal(false);
      }
    });

    it(`of the ${service} are named by one scheme`, () => {
      for (const { path, type, defaultValue } of keys) {
        const name = pathText(path);
        expect(name, "a limit begins with max").not.to.match(/concurrency|AtOnce|SizeLimit|queueLength/);
        if (!type.includes("number") || /(age|ize)$/.test(name)) continue;
        if (/timeout|interval|delay|deadline|After|grace/i.test(path.at(-1) ?? "")) expect(name).to.match(/(Ms|Days)$/);
        if (/bytes/i.test(name)) expect(name).to.match(/[bB]ytes(Per[A-Z]\w*)?$/);
        if (typeof defaultValue === "number" && defaultValue >= 65_536 && /size$/i.test(name))
          expect(name).to.match(/Bytes$/);
      }
    });

    it(`of the ${service} show no secret's value in an example`, () => {
      const secrets = keys.filter(({ facts }) => facts.secret === "wholly").map(({ path }) => path.at(-1));
      const shown = exampleOf(service)
        .split("\n")
        .map((line) => /^[\s-]*(\w+):/.exec(line)?.[1])
        .filter((name) => secrets.includes(name));
      expect(shown).to.deep.equal([]);
    });
  }
});

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(service: string, args: readonly string[]): Promise<Ran> {
  const main = join(repositoryFolder, "services", service, "dist/main.js");
  return promisify(execFile)(process.execPath, [main, ...args], { env: { PATH: process.env.PATH } }).then(
    (ended) => ({ code: 0, ...ended }),
    (ended: Ran) => ended,
  );
}

describe("a service's command line", () => {
  let certificates: TestCertificates;
  let passwordHash: string;
  before(async () => {
    certificates = await testCertificates({ hostIds: ["host-1"] });
    passwordHash = await hashPassword(PASSWORD);
  });

  /** Creates a copy of the example config, with the files that it names. */
  function installed(service: string): string {
    const folder = temporaryFolder();
    cpSync(certificates.folder, join(folder, "certs"), { recursive: true });
    mkdirSync(join(folder, "secrets"));
    const secrets = {
      "director-database": `mongodb://ann:${PASSWORD}@db-1.example.com/diskmesh`,
      "registry-database": `mongodb://ann:${PASSWORD}@db-1.example.com/diskmesh`,
      "cloud-properties.yaml": `auth: { password: ${PASSWORD} }`,
      "admin-password-hash": passwordHash,
    };
    for (const [name, text] of Object.entries(secrets))
      writeFileSync(join(folder, "secrets", name), `${text}\n`, { mode: 0o600 });
    const file = join(folder, `${service}.yaml`);
    writeFileSync(file, readFileSync(join(repositoryFolder, "deploy/examples", `${service}.yaml`)));
    return file;
  }

  for (const service of SERVICES) {
    it(`${service}: its example is what the code says, and good: else run \`npm run configuration\``, async () => {
      expect(read(`deploy/examples/${service}.yaml`)).to.equal(exampleOf(service));
      const file = installed(service);
      const { stderr, code, stdout } = await run(service, ["--check-config", file]);
      expect(code).to.equal(EXIT_CODES.stopped);
      const engine = service === "disk-agent" ? "engine \\w+ carries the bytes of disks; .*\n" : "";
      expect(stdout).to.match(new RegExp(`^${file}: good\n${engine}$`));
      // A machine with LVM or mdadm that takes every drive is warned about.
      expect(stderr).to.match(/^(warning: (LVM|mdadm|udev|multipathd) .*\n)*$/);
    });
  }

  it("reports all errors of the file and the certificates at once", async () => {
    const service = "disk-agent";
    const file = installed(service);
    const text = readFileSync(file, "utf8")
      .replace("certs/ca.pem", "certs/none.pem")
      .replace("host: 0.0.0.0", "hots: a");
    writeFileSync(file, `${text}\npassword: ${PASSWORD}\nremoteIoTimeoutMs: soon\n`);
    const { code, stdout, stderr } = await run(service, ["--check-config", file]);
    expect([code, stdout]).to.deep.equal([EXIT_CODES.config, ""]);
    for (const part of [
      /^listen\.hots: this key is not known; did you mean listen\.host\?$/m,
      /^listen\.host: this key is missing; it takes: text$/m,
      /^password: this key is not known; .+$/m,
      /^remoteIoTimeoutMs: "soon" does not fit; it takes: whole/m,
      /^tls: cannot read the TLS file .*none\.pem: ENOENT/m,
      /: 5 things are wrong$/m,
    ])
      expect(stderr).to.match(part);
    expect(stderr).not.to.contain(PASSWORD);
  });

  it("prints its version and its options, and refuses unknown options", async () => {
    expect(await run("disk-agent", ["--version"])).to.deep.include({
      code: 0,
      stdout: `diskmesh-disk-agent ${VERSION}\n`,
    });
    const { code, stdout } = await run("disk-agent", ["--help"]);
    expect(code).to.equal(0);
    for (const option of ["config", "check-config", "drive-rules"]) expect(stdout).to.contain(`  --${option} `);
    const { code: refused, stderr } = await run("disk-agent", ["--port", "1"]);
    expect([refused, stderr]).to.deep.equal([EXIT_CODES.config, stderr]);
    expect(stderr).to.match(/--port.*give --config FILE, --check-config FILE, --version or --help/);
  });

  it("has the version of the package", () => {
    expect(VERSION).to.equal((JSON.parse(read("package.json")) as { version: string }).version);
  });
});
