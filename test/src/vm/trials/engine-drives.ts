import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { DEVICE_BYTES, type EngineScene } from "@diskmesh/disk-agent/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type Devices, SECTOR_BYTES } from "./device-mapper.js";

const run = promisify(execFile);
const TIMEOUT_MS = 50_000;

/** Runs a program, and resolves to its output. Rejects when it fails, or does not end in time. */
export async function call(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(program, args, { timeout: TIMEOUT_MS, killSignal: "SIGKILL" });
  return stdout.trim();
}

/** Returns the sectors that were written to a drive since it was made. */
export async function sectorsWrittenTo(path: string): Promise<number> {
  return Number((await readFile(`/sys/block/${basename(path)}/stat`, "utf8")).trim().split(/\s+/)[6]);
}

/** Makes the drives of a scene, whose folder has links to them. */
export async function makeDrives(devices: Devices, deviceBytes = DEVICE_BYTES) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "exports"));
  const drive = async (name: string, sizeBytes: number): Promise<string> => {
    const path = await devices.drive(sizeBytes / SECTOR_BYTES);
    symlinkSync(path, join(folder, name));
    return path;
  };
  const drives = { a: await drive("a", deviceBytes), b: await drive("b", deviceBytes) };
  return { folder, drives: { ...drives, shared: await drive("shared", 2 * deviceBytes) } };
}

/** Ends what a scene has on drives that the test made. Disks that are mounted must be unmounted before. */
export async function unwind(scene: EngineScene): Promise<void> {
  await scene.leave();
  await eventually(async () => expect(await scene.mapper?.endAll()).to.deep.equal([]));
}
