import { readFile, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { type MountEntry, mountedAt, parseMountInfo } from "../model/mount-info.js";
import { runProgram } from "./run-program.js";

/** A mount replays a journal first. */
const MOUNT_TIMEOUT_MS = 10 * 60_000;
/** An unmount writes what the page cache holds. */
const UNMOUNT_TIMEOUT_MS = 30 * 60_000;
/** Bound of the mounts that lie on one path. */
const MAX_LAYERS = 100;

export async function allMounts(): Promise<MountEntry[]> {
  return parseMountInfo(await readFile("/proc/self/mountinfo", "utf8"));
}

/** Returns the mount on top at the path, which may not exist. */
export async function mountAt(path: string): Promise<MountEntry | undefined> {
  return mountedAt(await allMounts(), await realPathOf(path));
}

/** Returns the path without symbolic links in its folder. Its last part is not looked at, since its mount may hang. */
async function realPathOf(path: string): Promise<string> {
  const folder = await realpath(dirname(path)).catch(() => dirname(path));
  return join(folder, basename(path));
}

export async function mountDevice(
  devicePath: string,
  path: string,
  type: string,
  options: readonly string[],
): Promise<void> {
  await mount(["-t", type, ...(options.length > 0 ? ["-o", options.join(",")] : []), devicePath, path]);
}

/** Mounts a file or a mounted folder at another path, too. */
export async function bindMount(from: string, path: string, isReadOnly: boolean): Promise<void> {
  await mount(["-o", isReadOnly ? "bind,ro" : "bind", from, path]);
}

export async function makeReadOnly(path: string): Promise<void> {
  await mount(["-o", "remount,bind,ro", path]);
}

async function mount(args: readonly string[]): Promise<void> {
  const { code, text } = await runProgram("mount", args, MOUNT_TIMEOUT_MS);
  if (code === 0) return;
  const ErrorClass = /wrong fs type|unknown filesystem type|bad option/.test(text)
    ? InvalidStateError
    : UnavailableError;
  throw new ErrorClass(`mount ${args.join(" ")} failed with ${code}: ${text}`);
}

/** Removes every mount at the path. */
export async function unmount(path: string): Promise<void> {
  for (let layer = 0; layer < MAX_LAYERS; layer++) {
    if ((await mountAt(path)) === undefined) return;
    const { code, text } = await runProgram("umount", [path], UNMOUNT_TIMEOUT_MS);
    if (code !== 0 && !/not mounted/.test(text))
      throw new UnavailableError(`umount ${path} failed with ${code}: ${text}`);
  }
  throw new UnavailableError(`${path} has more than ${MAX_LAYERS} mounts`);
}
