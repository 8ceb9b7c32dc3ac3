import { type BigIntStats, readdirSync, readFileSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { deviceNumber } from "./device-number.js";

/** The file that is asked about, from a stat of it. */
export type StatOfFile = Pick<BigIntStats, "dev" | "ino" | "rdev" | "isBlockDevice">;

/** Searching the descriptors of all processes ends after this time: it is for a text that people read. */
const SEARCH_LIMIT_MS = 2_000;
/** Descriptors looked at in one turn of the event loop: one look takes some 15 us, and waits for no hardware. */
const LOOKS_IN_A_TURN = 64;

/**
 * Who holds a file, for people: "process 17 (qemu-nbd)". The kernel does not say whose the locks of open files are, so
 * this looks at what each process has open, as far as this one may see; first at the one that it likely is.
 */
export async function describeHolder(file: StatOfFile, likelyPid = process.pid): Promise<string> {
  const pid = (await lockingPid(file)) ?? (await openingPid(file, likelyPid));
  if (pid === undefined) return "another process, which cannot be seen from here";
  return nameOf(pid);
}

/**
 * Who has locked the file with flock(2): Linux keeps those apart from all other locks, so that nobody is kept out by
 * them who does not look. Undefined when nobody else has. Looks after the call only, never at what was read before.
 */
export async function describeFlockHolder(file: StatOfFile): Promise<string | undefined> {
  const found = locksOn(file, await kernelLocks()).find(({ kind, pid }) => kind === "FLOCK" && pid !== process.pid);
  if (found === undefined) return undefined;
  // 0: of another pid namespace.
  return found.pid > 0 ? nameOf(found.pid) : "another process, which cannot be seen from here";
}

interface KernelLock {
  readonly kind: string;
  readonly pid: number;
}

/** Lines such as "1: FLOCK  ADVISORY  WRITE 4711 fe:00:99 0 EOF"; those who wait have "->" after the number. */
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

/** Those who ask while it is being read share the next reading: there may be thousands of locks, and as many who ask. */
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

/** Who holds one file often holds many, and they are asked for again and again. */
let lastFoundPid = process.pid;

/** The first process found whose descriptor has the lock, or, of a block device, may write to it. */
async function openingPid(file: StatOfFile, likelyPid: number): Promise<number | undefined> {
  const untilMs = performance.now() + SEARCH_LIMIT_MS;
  const holds = file.isBlockDevice() ? holdsDevice(file) : holdsLock(file);
  let looks = 0;
  for (const pid of [`${likelyPid}`, `${lastFoundPid}`, ...namesIn("/proc").filter((name) => /^\d+$/.test(name))])
    for (const fd of namesIn(`/proc/${pid}/fdinfo`)) {
      if (holds(pid, fd)) {
        lastFoundPid = Number(pid);
        return lastFoundPid;
      }
      looks += 1;
      if (looks % LOOKS_IN_A_TURN > 0) continue;
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

// The kernel tells of nobody whether it was an exclusive open: who may write to it is the next best.
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

// A process or a descriptor may be gone by now, or be another user's.
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

async function nameOf(pid: number): Promise<string> {
  // A process chooses its name: nothing of it may break a line of a log.
  const name = (await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")).replace(/[^\x21-\x7e]+/g, " ").trim();
  return `process ${pid}${name && ` (${name})`}`;
}
