import { readdir, readFile, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { type MountEntry, mountedAt, parseMountInfo } from "../model/mount-info.js";
import { checkAnswers, deviceNumbered, isHeld, type NodeDevice } from "./device.js";
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

/** Programs of the node neither run a volume's set-user-ID files with the rights of their owners nor open its devices. */
const SAFE = ["nosuid", "nodev"];

export async function mountDevice(
  devicePath: string,
  path: string,
  type: string,
  options: readonly string[],
): Promise<void> {
  await mount(["-t", type, "-o", [...options, ...SAFE].join(","), devicePath, path]);
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

/** Removes every mount at the path. The file system stays mounted elsewhere. */
export async function unmount(path: string): Promise<void> {
  for (let layer = 0; layer < MAX_LAYERS; layer++) {
    if ((await mountAt(path)) === undefined) return;
    await unmountOnce(path);
  }
  throw new UnavailableError(`${path} has more than ${MAX_LAYERS} mounts`);
}

async function unmountOnce(path: string): Promise<void> {
  const { code, text } = await runProgram("umount", [path], UNMOUNT_TIMEOUT_MS);
  if (code !== 0 && !/not mounted/.test(text))
    throw new UnavailableError(`umount ${path} failed with ${code}: ${text}`);
}

/**
 * Unmounts the file system at the path for good: everything that was written is on its device, and nobody on this machine
 * has the file system. Otherwise throws an error and leaves it mounted.
 *
 * An unmount alone writes nothing while another mount namespace has the file system, e.g. that of a container which was
 * started meanwhile.
 */
export async function unmountForGood(path: string): Promise<void> {
  for (let layer = 0; layer < MAX_LAYERS; layer++) {
    const mounted = await mountAt(path);
    if (mounted === undefined) return;
    const device = await writtenBackTo(mounted);
    await unmountOnce(path);
    const isLast = (await mountAt(path))?.device !== mounted.device;
    if (isLast && device !== undefined && (await isHeldLong(device))) {
      await mountDevice(device.path, path, mounted.fsType, mounted.isReadOnly ? ["ro"] : []);
      throw await stillInUse(device, path);
    }
  }
  throw new UnavailableError(`${path} has more than ${MAX_LAYERS} mounts`);
}

/**
 * Writes back what was written to the file system. Returns its device, or undefined when nothing more can reach it: the
 * file system takes no writes, or the device has ended or does not answer, e.g. after a fence. Such a file system is
 * unmounted whoever else has it.
 */
async function writtenBackTo({
  path,
  device: number,
  isFileSystemReadOnly,
}: MountEntry): Promise<NodeDevice | undefined> {
  const device = await deviceNumbered(number);
  if (device === undefined || isFileSystemReadOnly || !(await answers(device))) return undefined;
  const { code, text } = await runProgram("sync", ["--file-system", path], UNMOUNT_TIMEOUT_MS);
  if (code === 0) return device;
  if (!(await answers(device))) return undefined;
  throw new UnavailableError(`${device.path} does not take what was written to ${path} (${code}): ${text}`);
}

function answers(device: NodeDevice): Promise<boolean> {
  return checkAnswers(device).then(
    () => true,
    () => false,
  );
}

/** Others open a device for a moment, e.g. to probe it. */
const HELD_CHECKS = 50;
const HELD_INTERVAL_MS = 100;

async function isHeldLong(device: NodeDevice): Promise<boolean> {
  for (let check = 0; check < HELD_CHECKS; check++) {
    if (!(await isHeld(device))) return false;
    await delay(HELD_INTERVAL_MS);
  }
  return true;
}

async function stillInUse(device: NodeDevice, path: string): Promise<Error> {
  const holders = await holdersOf(device, path);
  const shown = holders.length === 0 ? "a process that this driver cannot see" : holders.join(", ");
  return new InvalidStateError(`${device.path} stays mounted in a mount namespace of ${shown}: end it`);
}

const MAX_HOLDERS = 5;

/**
 * Returns one process of each mount namespace that has the device mounted, as far as /proc shows them. The driver's own
 * mount at the path does not count.
 */
async function holdersOf({ number }: NodeDevice, ownPath: string): Promise<string[]> {
  const found = new Map<string, string>();
  const own = await readlink("/proc/self/ns/mnt");
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid) || found.size >= MAX_HOLDERS) continue;
    try {
      // Fails for the kernel's own threads, which nobody can end.
      await readlink(`/proc/${pid}/exe`);
      const namespace = await readlink(`/proc/${pid}/ns/mnt`);
      if (found.has(namespace)) continue;
      const mounts = parseMountInfo(await readFile(`/proc/${pid}/mountinfo`, "utf8"));
      const isOwn = (at: string) => namespace === own && at === ownPath;
      const mounted = mounts.find(({ device, path }) => device === number && !isOwn(path));
      if (mounted === undefined) continue;
      const name = (await readFile(`/proc/${pid}/comm`, "utf8")).trim();
      found.set(namespace, `process ${pid} (${JSON.stringify(name)}) at ${mounted.path}`);
    } catch {
      // The process has ended.
    }
  }
  return [...found.values()];
}
