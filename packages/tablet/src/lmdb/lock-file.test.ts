import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { LockFile } from "./lock-file.js";

describe("LockFile", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "diskmesh-lock-"));
  });

  afterEach(() => rm(folder, { recursive: true }));

  const path = (): string => join(folder, "owner.lock");

  /** The lock of this process, changed as if another one had made it. */
  async function leaveLock(change: object): Promise<void> {
    new LockFile(folder);
    const own = JSON.parse(await readFile(path(), "utf8"));
    await writeFile(path(), JSON.stringify({ ...own, ...change }));
  }

  it("keeps everybody out until it is released, also this process", () => {
    const lock = new LockFile(folder);
    expect(() => new LockFile(folder)).to.throw(UnavailableError, `${folder} is in use by process ${process.pid}`);
    lock.release();
    new LockFile(folder).release();
  });

  it("leaves nothing behind", async () => {
    const lock = new LockFile(folder);
    expect(() => new LockFile(folder)).to.throw(UnavailableError);
    expect(await readdir(folder)).to.deep.equal(["owner.lock"]);
    lock.release();
    expect(await readdir(folder)).to.deep.equal([]);
  });

  it("keeps out another living process", async () => {
    const child = spawn("sleep", ["60"]);
    try {
      const stat = await readFile(`/proc/${child.pid}/stat`, "utf8");
      await leaveLock({ pid: child.pid, startTime: stat.split(" ")[21] });
      expect(() => new LockFile(folder)).to.throw(UnavailableError, `process ${child.pid}`);
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    new LockFile(folder).release();
  });

  const stale: Record<string, () => Promise<void>> = {
    "a process that is gone": () => leaveLock({ pid: 2 ** 22 + 1 }),
    "an earlier process with the pid of one that lives": () => leaveLock({ startTime: "1" }),
    "an earlier boot": () => leaveLock({ bootId: "another" }),
    "a write that power loss cut short": () => writeFile(path(), '{"pid":'),
    nobody: () => writeFile(path(), ""),
  };
  for (const [title, leave] of Object.entries(stale)) {
    it(`takes over the lock of ${title}`, async () => {
      await leave();
      const lock = new LockFile(folder);
      expect(() => new LockFile(folder)).to.throw(UnavailableError);
      lock.release();
      expect(await readdir(folder)).to.deep.equal([]);
    });
  }

  it("takes over the lock of a process that nobody has reaped", async () => {
    // The shell's child ends at once; the shell becomes a program that never reaps it.
    const shell = spawn("/bin/sh", ["-c", "sleep 0 & echo $!; exec sleep 60"]);
    const [line] = await once(shell.stdout, "data");
    const pid = Number(String(line));
    let stat = "";
    while (!stat.includes(") Z ")) stat = await readFile(`/proc/${pid}/stat`, "utf8");
    await leaveLock({ pid, startTime: stat.split(" ")[21] });
    new LockFile(folder).release();
    shell.kill("SIGKILL");
    await once(shell, "exit");
  });

  it("does not release a lock that somebody else has taken over", async () => {
    const lock = new LockFile(folder);
    await rm(path());
    const other = new LockFile(folder);
    lock.release();
    expect(await readdir(folder)).to.deep.equal(["owner.lock"]);
    other.release();
  });
});
