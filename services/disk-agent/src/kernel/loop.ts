import { execFile } from "node:child_process";
import { open, readdir, readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import { SECTOR_BYTES } from "../model/mapped-devices.js";

const run = promisify(execFile);

/** Maximum time in ms of a program that changes devices or mounts. */
const PROGRAM_TIMEOUT_MS = 10_000;
const LOOP_TRIES = 5;
const LOOP_RETRY_MS = 200;

/** Runs a program of the host. Throws UnavailableError with its output when it fails. */
export async function runProgram(program: string, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await run(program, [...args], { timeout: PROGRAM_TIMEOUT_MS });
    return stdout.trim();
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new UnavailableError(`${program} failed: ${stderr?.trim() || messageOf(error)}`, { cause: error });
  }
}

/**
 * Makes a block device of a file, and returns its path. Direct I/O, because the device would otherwise keep a second
 * copy of every byte and be slower. Throws UnavailableError when the device has another size than the file.
 */
export async function attachLoop(file: string): Promise<string> {
  for (let tries = 1; ; tries += 1)
    try {
      return await attachOnce(file);
    } catch (error) {
      // Another program may take the free device that losetup has found.
      if (tries === LOOP_TRIES) throw error;
      await sleep(LOOP_RETRY_MS);
    }
}

async function attachOnce(file: string): Promise<string> {
  // Linux before 6.15 takes the size that the kernel remembers, and of a file by FUSE it remembers none before this.
  const { size } = await stat(file);
  const device = await runProgram("losetup", ["--direct-io=on", "--find", "--show", file]);
  const sectors = Number(await readAttribute(device, "size"));
  if (sectors === Math.floor(size / SECTOR_BYTES)) return device;
  await detachLoop(device, file);
  throw new UnavailableError(`${device} has ${sectors} sectors, and its file ${file} has ${size} bytes`);
}

/** Returns the block devices that are made of the file. */
export async function loopsOf(file: string): Promise<string[]> {
  const names = (await readdir("/sys/block")).filter((name) => name.startsWith("loop"));
  const found = await Promise.all(
    names.map(async (name) => ((await backingFileOf(`/dev/${name}`)) === file ? [`/dev/${name}`] : [])),
  );
  return found.flat();
}

function backingFileOf(device: string): Promise<string> {
  return readAttribute(device, "loop/backing_file");
}

/** Returns an attribute of a block device; empty when the device or the attribute does not exist. */
async function readAttribute(device: string, name: string): Promise<string> {
  return (await readFile(`/sys/block/${basename(device)}/${name}`, "utf8").catch(() => "")).trim();
}

/** File that the kernel names for a block device whose file was on a mount that has ended. */
const ENDED_MOUNT = "/";

/** Returns whether the block device exists, although its file's mount has ended. Its users get nothing but errors. */
export async function isStranded(device: string): Promise<boolean> {
  return (await backingFileOf(device)) === ENDED_MOUNT;
}

/** Returns whether the kernel ends the block device with its last user. */
export async function endsWithLastUser(device: string): Promise<boolean> {
  return (await readAttribute(device, "loop/autoclear")) === "1";
}

/** Returns the kernel's number of this making of the device; empty before Linux 5.15. */
export function makingOf(device: string): Promise<string> {
  return readAttribute(device, "diskseq");
}

/** Ends a block device whose file was a mount that has ended: now, or with its last user. */
export async function detachStranded(device: string): Promise<void> {
  await detachLoop(device, ENDED_MOUNT);
}

/** Ends the block devices that are made of the file: now, or each with its last user. */
export async function detachLoops(file: string): Promise<void> {
  for (const device of await loopsOf(file)) await detachLoop(device, file);
}

/**
 * Ends the block device of the file: now, or with its last user. The kernel knows its users in all mount namespaces, and
 * writes back at the last close.
 */
async function detachLoop(device: string, file: string): Promise<void> {
  if ((await backingFileOf(device)) !== file) return;
  // The open descriptor keeps the number from becoming another disk's before the detach. It also keeps kernels before
  // 6.11 from ending the device at once, which would lose the last writes of a user that is just leaving.
  await using _pin = await open(device, "r");
  if ((await backingFileOf(device)) === file) await runProgram("losetup", ["--detach", device]);
}
