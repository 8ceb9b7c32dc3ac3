import { execFile } from "node:child_process";
import { copyFileSync, cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { MIB_BYTES, messageOf } from "@diskmesh/domain";
import { leaveToVerify, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { pythonOf } from "./python-of.js";
import { repositoryFolder } from "./repository-folder.js";

const run = promisify(execFile);

const PUBLIC = ["common", "cpi", "director", "registry"];
const PROTOS = join(repositoryFolder, "proto");
const SOURCES = join(repositoryFolder, "test/src/foreign-clients");
const GRPC_TOOLS = "python-grpc-tools-protoc";
/** Build timeout. A cold build of grpc-go takes a minute on two idle cores, and eight times as long on busy ones. */
const BUILD_TIMEOUT_MS = 15 * 60_000;
const DOWNLOAD_TIMEOUT_MS = 2 * 60_000;
const CALLS_TIMEOUT_MS = 2 * 60_000;

const ANSWERED = {
  added: "ACTION_CODE_S_ALREADY",
  tasks: 0,
  details: { reason: "INVALID_ARGUMENT", field: "host_id" },
};

describe("clients that others generate from proto/", () => {
  let mesh: TestMesh;
  let folder: string;

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES }));
    await mesh.clients.registry.addHost({ hostId: "host-1" });
  });
  beforeEach(() => {
    folder = temporaryFolder();
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  it("in Go make calls, and read which field of a request is wrong", async function () {
    this.timeout(BUILD_TIMEOUT_MS);
    skipWithout(this, "go");
    for (const name of ["go.mod", "go.sum", "main.go"]) copyFileSync(join(SOURCES, name), join(folder, name));
    const go = (...args: string[]) => run("go", ["-C", folder, ...args], { timeout: BUILD_TIMEOUT_MS });
    await run("go", ["-C", folder, "mod", "download"], { timeout: DOWNLOAD_TIMEOUT_MS }).catch((error) =>
      skipBecause(this, `the Go modules of the client cannot be had: ${messageOf(error)}`),
    );
    const plugins = ["protoc-gen-go", "protoc-gen-go-grpc"].map((name) => ({
      local: ["go", "-C", folder, "tool", name],
      out: folder,
      opt: "module=diskmesh",
    }));
    const buf = join(repositoryFolder, "node_modules/@bufbuild/buf/bin/buf");
    const paths = PUBLIC.flatMap((name) => ["--path", join(PROTOS, "diskmesh", name)]);
    const template = JSON.stringify({ version: "v2", plugins });
    await run(process.execPath, [buf, "generate", PROTOS, "--template", template, ...paths]);
    await go("build", "-o", "client", ".");
    const { stdout } = await run(join(folder, "client"), addresses(), { timeout: CALLS_TIMEOUT_MS });
    expect(JSON.parse(stdout)).to.deep.equal({ ...ANSWERED, health: "SERVING", refused: "InvalidArgument" });
  });

  it("in Python make calls, and read which field of a request is wrong", async function () {
    skipWithout(this, GRPC_TOOLS);
    const files = PUBLIC.flatMap((name) =>
      readdirSync(join(PROTOS, "diskmesh", name, "v1")).map((file) => `diskmesh/${name}/v1/${file}`),
    );
    await run(GRPC_TOOLS, [
      "-I",
      PROTOS,
      "-I",
      join(PROTOS, "vendor"),
      `--python_out=${folder}`,
      `--grpc_python_out=${folder}`,
      ...files,
    ]);
    const env = { ...process.env, PYTHONPATH: folder };
    const { stdout } = await run(pythonOf(GRPC_TOOLS), [join(SOURCES, "client.py"), ...addresses()], {
      env,
      timeout: CALLS_TIMEOUT_MS,
    });
    expect(JSON.parse(stdout)).to.deep.equal({ ...ANSWERED, refused: "INVALID_ARGUMENT" });
  });

  it("in Java make calls, and read which field of a request is wrong", async function () {
    this.timeout(BUILD_TIMEOUT_MS);
    for (const program of ["javac", "mvn"]) skipWithout(this, program);
    cpSync(join(SOURCES, "java"), folder, { recursive: true });
    const maven = (...args: string[]) =>
      run("mvn", ["--batch-mode", "--quiet", `-Dprotos=${PROTOS}`, ...args], {
        cwd: folder,
        timeout: BUILD_TIMEOUT_MS,
      });
    await maven("generate-sources", "dependency:copy-dependencies").catch((error) => {
      const said = `${messageOf(error)} ${error.stdout}`;
      // Other failures are of the protos or of the client.
      if (!/[Uu]nable to resolve|[Cc]ould not (resolve|transfer|find artifact)|offline/.test(said)) throw error;
      skipBecause(this, `the Maven artifacts of the client cannot be had: ${said}`);
    });
    await maven("compile");
    const classes = `${join(folder, "target/classes")}:${join(folder, "target/dependency")}/*`;
    const options = { timeout: CALLS_TIMEOUT_MS };
    const { stdout } = await run("java", ["-cp", classes, "Client", ...addresses()], options);
    expect(JSON.parse(stdout)).to.deep.equal({ ...ANSWERED, health: "SERVING", refused: "INVALID_ARGUMENT" });
  });

  function addresses(): string[] {
    const { caFile, certFile, keyFile } = mesh.operatorFiles;
    return [mesh.address("disk-registry"), mesh.address("director"), caFile, certFile, keyFile];
  }
});
