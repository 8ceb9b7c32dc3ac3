import { type BigIntStats, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { deviceNumber } from "./device-number.js";
import { namesIn, textOf } from "./proc-files.js";

/** Fields of a stat that identify a file. */
export type StatOfFile = Pick<BigIntStats, "dev" | "ino" | "rdev" | "isBlockDevice">;

/**
 * Maximum time of the search through the descriptors of all processes. Short, because the result is only text for
 * people.
 */
const SEARCH_LIMIT_MS = 2_000;
/**
 * Number of descriptors inspected per turn of the event loop. Inspecting a descriptor takes about 15 us and does no
 * disk I/O.
 */
const DESCRIPTORS_PER_TURN = 64;

/**
 * Describes the holder of a file for people: "process 17 (qemu-nbd)". The kernel does not report owners of open file
 * description locks, so this searches the visible descriptors of all processes, starting with the likely holder.
 */
export async function describeHolder(file: StatOfFile, likelyPid = process.pid): Promise<string> {
  return (await holderOf(file, likelyPid)) ?? "another process, which cannot be seen from here";
}

/** Describes the holder as `describeHolder` does; undefined when no process that can be seen holds the file. */
export async function holderOf(file: StatOfFile, likelyPid = process.pid): Promise<string | undefined> {
  const pid = (await lockingPid(file)) ?? (await openingPid(file, likelyPid));
  return pid === undefined ? undefined : nameOf(pid);
}

/**
 * Describes another process that holds a flock(2) lock on the file; undefined when none does. Linux keeps flock apart
 * from all other locks, so such a lock excludes only programs that use flock. Reads the locks after the call; a read
 * that began earlier is not used.
 */
export async function describeFlockHolder(file: StatOfFile): Promise<string | undefined> {
  const found = locksOn(file, await kernelLocks()).find(({ kind, pid }) => kind === "FLOCK" && pid !== process.pid);
  if (found === undefined) return undefined;
  // Pid 0 means that the holder is in another pid namespace.
  return found.pid > 0 ? nameOf(found.pid) : "another process, which cannot be seen from here";
}

interface KernelLock {
  readonly kind: string;
  readonly pid: number;
}

/**
 * Parses lines such as "1: FLOCK ADVISORY WRITE 4711 fe:00:99 0 EOF"; lines of waiters have "->" after the number.
 */
function locksOn({ dev, ino }: StatOfFile, text: string): readonly KernelLock[] {
  const file = `${deviceNumber(dev, 16)}:${ino}`;
  return text
    .split("\n")
    .filter((line) => line.includes(file))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, kind, , , , name]) => kind !== "->" && name === file)
    .map(([, kind = "", , , pid]) => ({ kind, pid: Number(pid) }));
}

let reading: Promise<string> = Promise.resolve("");
let next: Promise<string> | undefined;

/**
 * Reads /proc/locks. Callers that arrive during a read share the next one, because there may be thousands of locks and
 * as many callers.
 */
function kernelLocks(): Promise<string> {
  next ??= reading.then(() => {
    next = undefined;
    reading = readFile("/proc/locks", "utf8").catch(() => "");
    return reading;
  });
  return next;
}

async function lockingPid(file: StatOfFile): Promise<number | undefined> {
  return locksOn(file, await kernelLocks()).find(({ pid }) => pid > 0)?.pid;
}

/**
 * Process that the last search found. The next search inspects it early, because holders often hold many files and are
 * queried repeatedly.
 */
let lastFoundPid = process.pid;

/** Returns the first process found whose descriptor holds the lock or, for a block device, is open for writing. */
async function openingPid(file: StatOfFile, likelyPid: number): Promise<number | undefined> {
  const untilMs = performance.now() + SEARCH_LIMIT_MS;
  const holds = file.isBlockDevice() ? holdsDevice(file) : holdsLock(file);
  let inspected = 0;
  for (const pid of [`${likelyPid}`, `${lastFoundPid}`, ...namesIn("/proc").filter((name) => /^\d+$/.test(name))])
    for (const fd of namesIn(`/proc/${pid}/fdinfo`)) {
      if (holds(pid, fd)) {
        lastFoundPid = Number(pid);
        return lastFoundPid;
      }
      inspected += 1;
      if (inspected % DESCRIPTORS_PER_TURN > 0) continue;
      if (performance.now() > untilMs) return undefined;
      await nextTurn();
    }
  return undefined;
}

type Holds = (pid: string, fd: string) => boolean;

function holdsLock(file: StatOfFile): Holds {
  return (pid, fd) => {
    const lines = textOf(`/proc/${pid}/fdinfo/${fd}`).split("\n");
    const locks = lines.filter((line) => line.startsWith("lock:")).map((line) => line.slice("lock:".length));
    return locksOn(file, locks.join("\n")).length > 0;
  };
}

const O_ACCMODE = 0o3;

// A block device's exclusive open is not visible to other processes. Write access is the closest evidence of it.
function holdsDevice(file: StatOfFile): Holds {
  return (pid, fd) => {
    const flags = /^flags:\s*([0-7]+)/m.exec(textOf(`/proc/${pid}/fdinfo/${fd}`))?.[1] ?? "0";
    if ((Number.parseInt(flags, 8) & O_ACCMODE) === 0) return false;
    try {
      const opened = statSync(`/proc/${pid}/fd/${fd}`, { bigint: true });
      return opened.isBlockDevice() && opened.rdev === file.rdev;
    } catch {
      return false;
    }
  };
}

async function nameOf(pid: number): Promise<string> {
  // A process chooses its own name, so characters that could break a log line are replaced.
  const name = (await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")).replace(/[^\x21-\x7e]+/g, " ").trim();
  return `process ${pid}${name && ` (${name})`}`;
}
