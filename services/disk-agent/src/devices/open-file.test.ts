import { execFileSync } from "node:child_process";
import { chmodSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { blockDeviceNumber, fileOpener } from "./open-file.js";

const SIZE = 1024 * 1024;
const NOBODY = 65_534;

describe("opening device files", () => {
  it("a regular file, also behind a link -> its size, and one identity whatever its name", async () => {
    const folder = temporaryFolder();
    const path = makeDeviceFile(folder, "a", SIZE);
    symlinkSync(path, join(folder, "link"));
    const opened = await fileOpener.open(join(folder, "link"));
    await opened.handle.close();
    const looked = await fileOpener.look(path);
    expect([opened.sizeBytes, opened.identity]).to.deep.equal([looked.sizeBytes, looked.identity]);
    expect(looked.sizeBytes).to.equal(SIZE);
  });

  it("a file that the agent's user may not read -> an error that says so", async () => {
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

  it("a block device -> its size, and nobody else may hold it", async function () {
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
        expect(second).to.match(/mounted, or another process holds it/);
      } finally {
        await opened.handle.close();
      }
    } finally {
      execFileSync("losetup", ["--detach", device]);
    }
  });

  it("device numbers are read as Linux encodes them", () => {
    expect(blockDeviceNumber(0x0803n)).to.equal("8:3");
    // 259:70000, an NVMe partition on a large machine: minor bits 0-7 below the major, 8-19 above it.
    expect(blockDeviceNumber(((70_000n & ~0xffn) << 12n) | (259n << 8n) | (70_000n & 0xffn))).to.equal("259:70000");
  });
});
