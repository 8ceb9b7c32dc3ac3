import { execFileSync, spawn } from "node:child_process";
import { chmodSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Outsider } from "@diskmesh/file-lock/testing";
import { eventually, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { countDescriptors } from "../testing/file-holders.js";
import { fileOpener } from "../testing/slow-files.js";
import { makeFileOpener } from "./open-file.js";

const SIZE = 1024 * 1024;
const NOBODY = 65_534;

describe("opening device files", () => {
  it("a regular file has its size, and one identity by any name or link", async () => {
    const folder = temporaryFolder();
    const path = makeDeviceFile(folder, "a", SIZE);
    symlinkSync(path, join(folder, "link"));
    const opened = await fileOpener.open(join(folder, "link"));
    await opened.handle.close();
    const looked = await fileOpener.look(path);
    expect([opened.sizeBytes, opened.identity]).to.deep.equal([looked.sizeBytes, looked.identity]);
    expect(looked.sizeBytes).to.equal(SIZE);
  });

  it("a symbolic link to a file that is gone is refused with the file's name", async () => {
    const link = join(temporaryFolder(), "link");
    symlinkSync("/dev/gone", link);
    const error = await fileOpener.open(link).catch((thrown: Error) => thrown.message);
    expect(error).to.match(/it is a symbolic link, and "\/dev\/gone", to which it leads, is not there$/);
  });

  it("a file that the agent's user may not read is refused with that reason", async () => {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    const path = makeDeviceFile(folder, "a", SIZE);
    chmodSync(path, 0o000);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid?.(NOBODY);
    try {
      const error = await fileOpener.open(path).catch((thrown: Error) => thrown.message);
      expect(error).to.match(/the agent's user may not read and write it/);
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  it("a block device has its size, and is held exclusively", async function () {
    if (process.getuid?.() !== 0) skipBecause(this, "only root can make a loop device");
    const backing = makeDeviceFile(temporaryFolder(), "a", SIZE);
    let device: string;
    try {
      device = execFileSync("losetup", ["--find", "--show", backing], { encoding: "utf8", stdio: "pipe" }).trim();
    } catch (error) {
      return skipBecause(this, `no loop device can be made: ${(error as Error).message.split("\n").at(-2)}`);
    }
    try {
      const opened = await fileOpener.open(device);
      try {
        expect(opened.sizeBytes).to.equal(SIZE);
        expect(opened.identity).to.match(/block 7:\d+:\d+$/);
        const second = await fileOpener.open(device).catch((thrown: Error) => thrown.message);
        expect(second).to.contain(`mounted, or held by process ${process.pid} `);
      } finally {
        await opened.handle.close();
      }
    } finally {
      execFileSync("losetup", ["--detach", device]);
    }
  });

  const outcomeOf = (path: string, opener = fileOpener) =>
    opener.open(path).then(
      async ({ handle }) => {
        await handle.close();
        return "opened";
      },
      (thrown: Error) => thrown.message,
    );

  it("a file that is already open is refused with this process's id, until it is closed", async () => {
    const path = makeDeviceFile(temporaryFolder(), "a", SIZE);
    const { handle } = await fileOpener.open(path);
    expect(await outcomeOf(path)).to.match(new RegExp(`a" cannot be used: it is locked by process ${process.pid} `));
    await handle.close();
    expect(await outcomeOf(path)).to.equal("opened");
  });

  for (const kind of ["flock", "posix", "ofd", "ofd byte"] as const)
    it(`a file locked by another program by ${kind} is refused with its id, until it is unlocked`, async function () {
      skipWithout(this, "python3");
      const path = makeDeviceFile(temporaryFolder(), "a", SIZE);
      {
        await using outsider = await Outsider.lock(path, kind);
        expect(await outcomeOf(path)).to.match(new RegExp(`locked,? .*by process ${outsider.pid} \\(python3\\)`));
      }
      expect(await outcomeOf(path)).to.equal("opened");
    });

  it("a file system without locks is refused, unless the configuration allows it", async function () {
    skipWithout(this, "python3");
    const path = makeDeviceFile(temporaryFolder(), "a", SIZE);
    const lock = () => ({ outcome: "impossible", reason: "ENOLCK: no locks available" }) as const;
    expect(await outcomeOf(path, makeFileOpener({ requireLocks: true, lock }))).to.match(/ENOLCK.*requireFileLocks/);
    expect(await outcomeOf(path, makeFileOpener({ requireLocks: false, lock }))).to.equal("opened");
    await using outsider = await Outsider.lock(path, "flock");
    expect(await outcomeOf(path, makeFileOpener({ requireLocks: false, lock }))).to.contain(`${outsider.pid}`);
  });

  it("a child process inherits neither descriptor nor lock", async () => {
    const path = makeDeviceFile(temporaryFolder(), "a", SIZE);
    const { handle } = await fileOpener.open(path);
    const heir = spawn("sleep", ["60"], { stdio: "ignore" });
    try {
      await eventually(() => readlinkSync(`/proc/${heir.pid}/exe`).endsWith("sleep"));
      expect(countDescriptors(heir.pid as number, path)).to.equal(0);
      expect(countDescriptors(process.pid, path)).to.equal(1);
      await handle.close();
      expect(await outcomeOf(path)).to.equal("opened");
    } finally {
      heir.kill("SIGKILL");
    }
  });
});
