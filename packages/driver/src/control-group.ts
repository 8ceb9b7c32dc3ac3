import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { namesIn } from "./process-group.js";

const PREFIX = "diskmesh-driver-";
const REMOVE_RETRY_MS = 20;
const MAX_REMOVE_RETRIES = 50;

/** Groups of this process, in use or about to be removed. */
const own = new Set<string>();

/**
 * A control group (cgroup v2) of a driver's process and all its descendants. No descendant leaves the group, whatever
 * its session, process group and environment, unless it may write to the group of its service.
 */
export class ControlGroup {
  private constructor(private readonly folder: string) {}

  /** Creates a group below the group of this process. Undefined where this process cannot create one. */
  static create(): ControlGroup | undefined {
    const parent = ownFolder();
    if (parent === undefined) return undefined;
    const name = `${PREFIX}${process.pid}-${randomUUID()}`;
    const folder = join(parent, name);
    try {
      mkdirSync(folder);
      own.add(name);
      // Linux before 5.14 has control groups that cannot be killed.
      if (existsSync(join(folder, "cgroup.kill"))) return new ControlGroup(folder);
      rmdirSync(folder);
    } catch {
      // The hierarchy is read-only, or belongs to root.
    }
    return undefined;
  }

  /** Kills and removes the groups of former runs of this service, which was killed before its drivers were. */
  static endAbandoned(): void {
    const parent = ownFolder();
    if (parent === undefined) return;
    for (const name of namesIn(parent)) {
      const pid = Number(new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1] ?? Number.NaN);
      // In a container, the former run often had the same process id.
      if (Number.isNaN(pid) || own.has(name) || (pid !== process.pid && isAlive(pid))) continue;
      const group = new ControlGroup(join(parent, name));
      group.kill();
      void group.remove();
    }
  }

  /** Moves a process into the group. Its later children start in the group. Returns false when it cannot be moved. */
  add(pid: number): boolean {
    return this.#write("cgroup.procs", String(pid));
  }

  pids(): number[] {
    try {
      return readFileSync(join(this.folder, "cgroup.procs"), "latin1").split("\n").filter(Boolean).map(Number);
    } catch {
      return [];
    }
  }

  /** Kills all processes of the group at once, also those that are being forked. */
  kill(): void {
    this.#write("cgroup.kill", "1");
  }

  /** Waits until the processes of the killed group have ended, and removes the group. */
  async remove(): Promise<void> {
    for (let retries = 0; retries < MAX_REMOVE_RETRIES; retries++) {
      try {
        rmdirSync(this.folder);
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EBUSY") return;
        await delay(REMOVE_RETRY_MS);
      }
    }
  }

  #write(file: string, text: string): boolean {
    try {
      writeFileSync(join(this.folder, file), text);
      return true;
    } catch {
      return false;
    }
  }
}

/** Returns the folder of this process's group, which may be a part of the hierarchy in a container. */
function ownFolder(): string | undefined {
  const path = /^0::(\/.*)$/m.exec(textOf("/proc/self/cgroup"))?.[1];
  for (const line of textOf("/proc/self/mountinfo").split("\n")) {
    const [mount = "", fileSystem = ""] = line.split(" - ");
    if (path === undefined || !fileSystem.startsWith("cgroup2 ")) continue;
    const [root = "/", mountPoint = ""] = mount.split(" ").slice(3, 5);
    const within = relative(root, path);
    if (!within.startsWith("..")) return join(mountPoint, within);
  }
  return undefined;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
