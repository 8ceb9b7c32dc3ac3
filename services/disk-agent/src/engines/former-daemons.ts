import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Logger, UnavailableError } from "@diskmesh/domain";

/** Program that carried the bytes of disks of 0.1.0, one process per session. */
const PROGRAM = "qemu-storage-daemon";
/** Files of these processes, one of which is the key of a session. */
const FILE = /^session-\d{1,16}\.(?:nbd|qmp|via|pid|log|vmdk|key)$/;
const END_TIMEOUT_MS = 5_000;
const POLL_MS = 10;

/**
 * Kills the storage daemons that an agent of 0.1.0 has left in its folder of exports, and removes their files. Returns the
 * process ids. Throws UnavailableError when a daemon does not end: it may still write to a device, so that no session may be
 * granted.
 */
export async function endFormerDaemons(
  folder: string,
  log: Logger,
  timeoutMs = END_TIMEOUT_MS,
): Promise<readonly number[]> {
  const real = realpathSync(folder);
  const daemons = namesIn("/proc").filter((name) => /^\d+$/.test(name) && hasThread(name, real, isProgram));
  const pids = daemons.map(Number);
  const untilMs = performance.now() + timeoutMs;
  for (const pid of pids) {
    killNow(pid);
    // The kernel frees the folder of a thread after its descriptors. Its arguments are gone before.
    while (hasThread(`${pid}`, real)) {
      if (performance.now() > untilMs)
        throw new UnavailableError(
          `process ${pid} (${PROGRAM}) of an agent of 0.1.0 was killed and has not ended: its device may hang, and the agent must not grant it to others before: mend the device or restart the machine`,
        );
      await sleep(POLL_MS);
    }
  }
  if (pids.length > 0) log.warn({ pids }, "storage daemons of 0.1.0 ended, and with them the I/O of their disks");
  for (const name of await readdir(folder)) if (FILE.test(name)) await rm(join(folder, name), { recursive: true });
  return pids;
}

/** Returns whether a thread of the process works in the folder, which may have been removed. */
function hasThread(pid: string, folder: string, isWanted: (thread: string) => boolean = () => true): boolean {
  const threads = namesIn(`/proc/${pid}/task`).map((id) => `/proc/${pid}/task/${id}`);
  return threads.some((thread) => [folder, `${folder} (deleted)`].includes(folderOf(thread)) && isWanted(thread));
}

/** Reads the arguments of a thread, because those of a process are gone with its first thread. */
function isProgram(thread: string): boolean {
  try {
    return basename(readFileSync(`${thread}/cmdline`, "utf8").split("\0")[0] ?? "") === PROGRAM;
  } catch {
    return false;
  }
}

function folderOf(thread: string): string {
  try {
    return readlinkSync(`${thread}/cwd`);
  } catch {
    return "";
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function killNow(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
