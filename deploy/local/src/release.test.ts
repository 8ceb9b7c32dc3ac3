import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { get } from "node:https";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import {
  eventually,
  freePort,
  leaveToVerify,
  onExit,
  runFolder,
  skipWithout,
  temporaryFolder,
} from "@diskmesh/testkit";
import { expect } from "chai";
import { BOSH_USER, boshLogin } from "./mesh/bosh-login.js";
import { MeshLayout, PORT_SPAN } from "./mesh/layout.js";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const SERVICES = ["director", "cpi-dispatcher", "disk-registry", "disk-agent"];
const PROGRAMS = ["diskmesh", "diskmesh-csi-driver", ...SERVICES.map((name) => `diskmesh-${name}`)];
/** The test starts many processes, and the machine may be busy. */
const STORY_TIMEOUT_MS = 180_000;

interface Release {
  readonly file: string;
  readonly version: string;
  readonly sha256: string;
}

describe("a release", function () {
  this.timeout(3 * STORY_TIMEOUT_MS);
  let made: Release;
  let unpacked: string;
  let elsewhere: string;
  /** PATH with Node and the programs that every system has. */
  let path: string;

  const bootstrap = () => import(join(repository, "deploy/local/bootstrap/release.mjs"));

  before(async function () {
    leaveToVerify(this);
    skipWithout(this, "tar", "grep");
    made = await (await bootstrap()).ensureRelease(repository, runFolder());
    const folder = join(temporaryFolder(), "a folder");
    mkdirSync(folder);
    execFileSync("tar", ["-xzf", made.file, "-C", folder]);
    unpacked = join(folder, `diskmesh-${made.version}`);
    elsewhere = temporaryFolder();
    path = `${folderWithNode()}:/usr/bin:/bin`;
  });

  function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = { PATH: path }) {
    return spawnSync(program, args, { cwd: elsewhere, env, encoding: "utf8" });
  }

  it("has equal bytes when it is built again by anybody, and prints its hash", async () => {
    const mask = process.umask(0o077);
    try {
      const again: Release = await (await bootstrap()).makeRelease(repository, temporaryFolder());
      expect(again.sha256).to.equal(made.sha256);
    } finally {
      process.umask(mask);
    }
    execFileSync("sha256sum", ["--check", "--quiet", `${made.file}.sha256`], { cwd: dirname(made.file) });
  });

  it("contains what a host needs, without tests or traces of the building machine", () => {
    const files = readdirSync(unpacked, { recursive: true }).map(String);
    expect(readdirSync(unpacked)).to.include.members([
      "LICENSE",
      "README.md",
      "docs",
      "examples",
      "helm",
      "host",
      "monitoring",
      "proto",
      "systemd",
    ]);
    expect(readdirSync(join(unpacked, "bin"))).to.have.members(PROGRAMS);
    expect(files.filter((file) => /^lib.*(?:\.test\.|testing|crashing)|\.d\.ts$/.test(file))).to.deep.equal([]);
    const native = files.filter((file) => file.endsWith(".node")).map((file) => file.split("/")[1]);
    expect(new Set(native)).to.deep.equal(new Set(["fs-native-extensions"]));
    const { stdout } = spawnSync("grep", ["-rlF", repository.replace(/\/$/, ""), unpacked], { encoding: "utf8" });
    expect(stdout).to.equal("", "files that name the folder it was made in");
  });

  it("contains the licences of all included code", () => {
    const text = readFileSync(join(unpacked, "THIRD-PARTY-LICENSES.txt"), "utf8");
    for (const name of ["fs-native-extensions", "@grpc/grpc-js", "mongodb", "preact", "zod"])
      expect(text).to.match(new RegExp(`^${name} \\d[\\d.]*: (?:MIT|Apache-2\\.0)$`, "m"));
    for (const name of ["typescript", "mocha", "esbuild"]) expect(text).not.to.match(new RegExp(`^${name} `, "m"));
  });

  it("names all included code in a bill of materials of CycloneDX", () => {
    const bill = JSON.parse(readFileSync(join(unpacked, "sbom.cdx.json"), "utf8"));
    expect(bill).to.deep.include({ bomFormat: "CycloneDX", specVersion: "1.5" });
    expect(bill.metadata.component).to.include({ name: "diskmesh", version: made.version });
    const named = bill.components.map(({ name, version }: Record<string, string>) => `${name} ${version}`);
    const licensed = readFileSync(join(unpacked, "THIRD-PARTY-LICENSES.txt"), "utf8");
    const headings = [...licensed.matchAll(/^((?:@[\w-]+\/)?[\w.-]+ \d+\.\d+\.\d+[\w.-]*): /gm)].map(
      ([, each]) => each,
    );
    expect(new Set(named)).to.deep.equal(new Set(headings));
    const purls: string[] = bill.components.map(({ purl }: { readonly purl: string }) => purl);
    expect(purls.find((purl) => purl.includes("grpc-js"))).to.match(/^pkg:npm\/%40grpc\/grpc-js@\d/);
  });

  it("has programs that run from anywhere, also through a link", () => {
    const link = join(elsewhere, "diskmesh-link");
    symlinkSync(join("..", elsewhere.split("/").at(-1) ?? "", "second"), link);
    symlinkSync(join(unpacked, "bin/diskmesh"), join(elsewhere, "second"));
    for (const program of [join(unpacked, "bin/diskmesh"), link]) {
      const { status, stdout, stderr } = run(program, ["--help"]);
      expect(stdout, stderr).to.include("Usage: diskmesh");
      expect(status).to.equal(0);
    }
  });

  for (const service of SERVICES)
    it(`has a ${service} that reports an error in its config`, () => {
      const { status, stderr } = run(join(unpacked, "bin", `diskmesh-${service}`), ["--config", "missing.yaml"]);
      expect(stderr).to.include("missing.yaml").and.include(`"service":"${service}"`);
      expect(status).to.equal(78);
    });

  for (const service of SERVICES)
    it(`has a ${service} that prints its version, its usage, and an error in its example`, () => {
      const program = join(unpacked, "bin", `diskmesh-${service}`);
      const { status, stdout, stderr } = run(program, ["--version"]);
      expect([status, stdout, stderr]).to.deep.equal([0, `diskmesh-${service} ${made.version}\n`, ""]);
      expect(run(program, ["--help"]).stdout)
        .to.include(`diskmesh-${service}: `)
        .and.include("--check-config FILE");
      // The example configs' only errors are about files that the operator must create.
      const checked = run(program, ["--check-config", join(unpacked, "examples", `${service}.yaml`)]);
      expect(checked.status, checked.stderr).to.equal(78);
      expect(checked.stdout + checked.stderr)
        .to.include("certs/ca.pem")
        .and.not.match(/unknown key|expected/i);
    });

  describe("reports problems with Node", () => {
    const fake = (output: string) => {
      const folder = temporaryFolder();
      writeFileSync(join(folder, "node"), `#!/bin/sh\n${output}\n`);
      chmodSync(join(folder, "node"), 0o755);
      return folder;
    };
    const cases: [string, () => NodeJS.ProcessEnv, RegExp][] = [
      ["there is none", () => ({ PATH: temporaryFolder() }), /there is no node on PATH: install Node 20\.19 or newer/],
      [
        "it is of an older release",
        () => ({ PATH: fake("echo v18.20.8") }),
        /\/node is Node v18\.20\.8: install 20\.19/,
      ],
      ["it is a little too old", () => ({ PATH: fake("echo v20.18.3") }), /\/node is Node v20\.18\.3: install 20\.19/],
      ["it is none", () => ({ PATH: fake("echo hello") }), /\/node is no Node: it says "hello" of its version/],
      ["it fails", () => ({ PATH: fake("exit 3") }), /\/node is no Node/],
      ["DISKMESH_NODE names none", () => ({ PATH: path, DISKMESH_NODE: "/no/node" }), /there is no \/no\/node/],
    ];
    for (const [what, env, message] of cases)
      for (const program of PROGRAMS)
        it(`to who starts ${program} when ${what}`, () => {
          const { status, stdout, stderr } = run(join(unpacked, "bin", program), ["--help"], env());
          expect(stderr)
            .to.match(message)
            .and.match(new RegExp(`^${program}: .*\n$`));
          expect([status, stdout]).to.deep.equal([78, ""]);
        });

    it("but accepts the one that DISKMESH_NODE names", () => {
      const env = { PATH: fake("echo v18.0.0"), DISKMESH_NODE: process.execPath };
      expect(run(join(unpacked, "bin/diskmesh"), ["--help"], env).status).to.equal(0);
    });
  });

  it("contains drivers", async () => {
    const health = join(unpacked, "node_modules/@diskmesh/drivers/disk-health.js");
    const { default: driver } = await import(pathToFileURL(health).href);
    expect(driver.driverName).to.equal("disk-health");
  });

  it("tries a vendor's driver, copied elsewhere as it is", () => {
    const vendors = join(temporaryFolder(), "shelf");
    cpSync(join(unpacked, "example-driver"), vendors, { recursive: true });
    const tried = (...args: string[]) => run(join(unpacked, "bin/diskmesh"), ["driver", "try", vendors, ...args]);
    expect(tried().stdout).to.contain("update_firmware");
    const { stdout, stderr } = tried("models", "--verb", "GET");
    expect(JSON.parse(stdout), stderr).to.deep.equal({ models: ["S24", "S60"] });
  });

  it("runs the whole story, and serves the page, without other files", async () => {
    const basePort = await freePort(PORT_SPAN + 1);
    const layout = new MeshLayout(join(elsewhere, ".diskmesh"), basePort);
    const { DISKMESH_BUNDLED: _, ...env } = process.env;
    const main = fileURLToPath(new URL("./main.js", import.meta.url));
    const args = [main, "--state", layout.stateFolder, "--base-port", String(basePort)];
    const launcher = spawn(process.execPath, args, {
      cwd: elsewhere,
      env: { ...env, PATH: `${path}:/usr/sbin:${env.PATH}`, DISKMESH_RELEASE: unpacked },
    });
    const stop = onExit(() => launcher.kill());
    let output = "";
    for (const stream of [launcher.stdout, launcher.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    const ended = new Promise<number | null>((resolve) => launcher.once("close", resolve));
    try {
      const serves = () => output.includes("The mesh serves until Ctrl-C");
      await Promise.race([
        eventually(serves, { timeoutMs: STORY_TIMEOUT_MS }),
        ended.then((code) => Promise.reject(new Error(`ended with ${code}:\n${output}`))),
      ]);
      for (const service of SERVICES) expect(programOf(service, layout)).to.include(unpacked);
      const status = run(join(unpacked, "bin/diskmesh"), ["status", "--state", layout.stateFolder]);
      expect(status.status, status.stderr).to.equal(0);
      const backup = join(elsewhere, "registry.backup");
      const saved = run(join(unpacked, "bin/diskmesh"), ["backup", "registry", backup, "--state", layout.stateFolder]);
      expect(saved.status, saved.stderr).to.equal(0);
      for (const [file, word] of [
        ["", "<!doctype html>"],
        ["/files/main.js", "preact"],
        ["/files/preact.js", "export"],
      ] as const)
        expect((await read(`https://${layout.directorHttpsAddress}/page${file}`, layout)).toLowerCase()).to.include(
          word,
        );
      launcher.kill("SIGINT");
      expect(await ended, output).to.equal(0);
      const config = layout.configFile("disk-registry");
      const options = ["restore", "registry", backup, "--config", config, "--replace"];
      const restored = run(join(unpacked, "bin/diskmesh"), options);
      expect(restored.status, restored.stderr).to.equal(0);
    } finally {
      launcher.kill();
      await ended;
      stop();
    }
  });

  it("contains programs that read OTLP settings and serve metrics without any other package", async () => {
    const layout = new MeshLayout(join(elsewhere, ".diskmesh"), 7000);
    const config = join(layout.stateFolder, "config", "otlp.yml");
    writeFileSync(config, readFileSync(layout.configFile("disk-registry")));
    appendFileSync(config, `telemetry: { otlpEndpoint: "http://127.0.0.1:9" }\n`);
    const service = spawn(join(unpacked, "bin/diskmesh-disk-registry"), ["--config", config], {
      cwd: elsewhere,
      env: { PATH: path },
    });
    let output = "";
    service.stderr.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    const ended = new Promise<number | null>((resolve) => service.once("close", resolve));
    const port = /^ *port: (\d+)\n?$/m.exec(readFileSync(config, "utf8").split("metrics:")[1] ?? "")?.[1];
    try {
      await eventually(async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).ok).catch((error) =>
        Promise.reject(new Error(`${error}\n${output}`)),
      );
    } finally {
      service.kill();
      expect(await ended, output).to.equal(0);
    }
    expect(output).not.to.match(/Cannot find|MODULE_NOT_FOUND/);
  });
});

/** Creates a folder that contains only the running Node program. */
function folderWithNode(): string {
  const folder = temporaryFolder();
  symlinkSync(process.execPath, join(folder, "node"));
  return folder;
}

/** Returns the command line of the process whose arguments contain the service's config file. */
function programOf(service: string, layout: MeshLayout): string {
  const config = layout.configFile(service === "disk-agent" ? "disk-agent-host-1" : service);
  const lines = readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(commandLineOf);
  return lines.find((line) => line.split("\0").includes(config)) ?? `no process runs with ${config}`;
}

/** Returns the command line of a process; empty when the process has ended. */
function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

async function read(url: string, layout: MeshLayout): Promise<string> {
  const ca = readFileSync(layout.tlsFiles("operator").caFile);
  const { password } = await boshLogin(layout);
  return new Promise((resolve, reject) => {
    get(url, { ca, auth: `${BOSH_USER}:${password}`, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      response.on("end", () => resolve(body));
    }).on("error", reject);
  });
}
