import { randomUUID } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { diskFullError, messageOf, UnavailableError } from "@diskmesh/domain";

/** A process, named so that a later one with the same pid is not taken for it. */
interface Holder {
  readonly pid: number;
  /** Clock ticks between boot and the start of the process; empty where the system does not tell. */
  readonly startTime: string;
  readonly bootId: string;
}

const TRIES = 5;

/**
 * Keeps a second process out of a folder, from construction to `release`. The lock of a process that died, or of an
 * earlier boot, is taken over.
 *
 * It spares users the surprise of two leaders; what keeps data safe is that every commit is conditional on the claimed
 * generation. So it is enough that the lock is right nearly always: two processes that take over the same dead lock
 * in the same instant, or that run in different pid namespaces, may both get it, and then the later claim wins.
 */
export class LockFile {
  readonly #path: string;
  readonly #content: string;

  constructor(folder: string) {
    this.#path = join(folder, "owner.lock");
    const own: Holder = { pid: process.pid, startTime: startTimeOf(process.pid) ?? "", bootId: bootId() };
    // The nonce tells two locks of one process apart.
    this.#content = JSON.stringify({ ...own, nonce: randomUUID() });
    for (let i = 0; i < TRIES; i++) {
      if (this.#create()) return;
      this.#removeStale(folder);
    }
    throw new UnavailableError(`the folder ${folder} is being locked by several processes at once; start only one`);
  }

  /** Removes the lock unless somebody else has taken it over. */
  release(): void {
    if (readOrNothing(this.#path) === this.#content) rmSync(this.#path, { force: true });
  }

  /** A link appears with its whole content or not at all, and never replaces another. */
  #create(): boolean {
    const draft = `${this.#path}.${randomUUID()}`;
    try {
      writeFileSync(draft, this.#content, { mode: 0o600 });
      linkSync(draft, this.#path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      const text = `cannot create the lock file ${this.#path}`;
      const noRoom = diskFullError(error, text, dirname(this.#path));
      throw noRoom ?? new UnavailableError(`${text}: ${messageOf(error)}`, { cause: error });
    } finally {
      rmSync(draft, { force: true });
    }
  }

  /** Throws when the holder lives. */
  #removeStale(folder: string): void {
    const content = readOrNothing(this.#path);
    if (content === undefined) return;
    const holder = parseHolder(content);
    if (holder !== undefined && isAlive(holder)) {
      throw new UnavailableError(
        `the folder ${folder} is in use by process ${holder.pid}; stop that process, or configure another folder`,
      );
    }
    // Renaming first, then looking: between the reading above and now somebody else may have put a fresh lock there.
    const aside = `${this.#path}.${randomUUID()}`;
    try {
      renameSync(this.#path, aside);
    } catch {
      return;
    }
    try {
      if (readOrNothing(aside) !== content) linkSync(aside, this.#path);
    } catch {
      // A third process has a lock there by now; the next try meets it.
    } finally {
      rmSync(aside, { force: true });
    }
  }
}

function parseHolder(content: string): Holder | undefined {
  try {
    const { pid, startTime, bootId: boot } = JSON.parse(content) as Partial<Holder>;
    if (!Number.isSafeInteger(pid) || (pid as number) <= 0) return undefined;
    if (typeof startTime !== "string" || typeof boot !== "string") return undefined;
    return { pid: pid as number, startTime, bootId: boot };
  } catch {
    // Links hold whole files, so a torn one is older than the last power failure.
    return undefined;
  }
}

function isAlive(holder: Holder): boolean {
  if (holder.bootId !== bootId()) return false;
  if (holder.startTime !== "") return startTimeOf(holder.pid) === holder.startTime;
  try {
    process.kill(holder.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Undefined when there is no such process, or only its unreaped remains. */
function startTimeOf(pid: number): string | undefined {
  const stat = readOrNothing(`/proc/${pid}/stat`);
  // The second field, the command, may hold spaces and brackets; the state is the first field after it.
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields === undefined || fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

function bootId(): string {
  return readOrNothing("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
}

function readOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
