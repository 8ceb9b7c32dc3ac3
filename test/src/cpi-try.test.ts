import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { ReferenceCpi } from "./reference-cpi/install.js";
import { repositoryFolder } from "./repository-folder.js";

const SECRET = "hunter2-secret";

describe("diskmesh cpi try", () => {
  let folder: string;
  let cpi: ReferenceCpi;
  let child: ChildProcess;

  beforeEach(() => {
    folder = temporaryFolder();
    cpi = new ReferenceCpi(folder);
    writeFileSync(join(folder, "objects.yml"), "stemcell: { image: objects.yml }\ndisk: { size_mib: 1 }\n");
  });

  afterEach(() => cpi.stopVms());

  /** Starts the command in a process group of its own, as a shell does. */
  function start(properties: object) {
    const written = { state_folder: cpi.stateFolder, speaks_api_version: 3, password: SECRET, ...properties };
    writeFileSync(join(folder, "properties.yml"), JSON.stringify(written), { mode: 0o600 });
    const command = join(repositoryFolder, "packages/cli/bin/diskmesh.mjs");
    const files = ["--properties", "properties.yml", "--objects", "objects.yml"];
    child = spawn(process.execPath, [command, "cpi", "try", "bin/cpi", ...files], {
      cwd: folder,
      env: { PATH: process.env.PATH, TMPDIR: folder },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const printed = { out: "", err: "" };
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (printed.out += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (printed.err += text));
    const code = new Promise<number | null>((resolve) => child.once("close", resolve));
    return { printed, code };
  }

  it("finds nothing wrong with the reference CPI, prints what it is asked without secrets, and leaves nothing", async () => {
    const { printed, code } = start({});
    expect(await code, printed.out + printed.err).to.equal(0);
    expect(printed.out)
      .to.match(/^ok +info .*: version 3, /)
      .and.to.match(/\n20 steps, 0 failed\n$/);
    expect(printed.err).to.contain('[try] {"method":"create_vm"').and.to.contain("failed: Bosh::Clouds::DiskNotFound");
    expect(printed.out + printed.err).not.to.contain(SECRET);
    expect(cpi.things()).to.deep.equal([]);
    expect(readdirSync(folder).filter((name) => name.startsWith("diskmesh"))).to.deep.equal([]);
  });

  it("shows the beginning of what a CPI prints instead of an answer, without secrets, and fails", async () => {
    cpi.misbehave({ attach_disk: "garbage", snapshot_disk: "error=Bosh::Clouds::NotImplemented" });
    const { printed, code } = start({ hint_secrets: { password: SECRET } });
    expect(await code, printed.out + printed.err).to.equal(1);
    expect(printed.out).to.match(/\nFAILED +attach_disk answers a hint.*what the CPI has done is not known/);
    expect(printed.out).to.match(/\nlacks +snapshot_disk/);
    expect(printed.err).to.contain("[try] attach_disk printed instead of a valid answer: ");
    expect(printed.out + printed.err).not.to.contain(SECRET);
    expect(cpi.things()).to.deep.equal([]);
  });

  it("deletes what it has made when it is stopped", async () => {
    cpi.misbehave({ create_disk: "hangs" });
    const { printed, code } = start({});
    await eventually(() => expect(printed.err).to.contain('{"method":"create_disk"'));
    process.kill(-(child.pid as number), "SIGINT");
    expect(await code, printed.out + printed.err).to.equal(5);
    expect(printed.out).to.match(/\nFAILED +create_disk .*the trial was stopped; what the CPI has done is not known/);
    expect(printed.out).to.match(/\nok +vm .* was left/);
    expect(cpi.things()).to.deep.equal([]);
  });
});
