import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { bytesText, type Clock, type Logger } from "@diskmesh/domain";
import { allEnded, observe } from "@diskmesh/metrics";
import { processMetrics } from "./process-metrics.js";

const CHECK_INTERVAL_MS = 5_000;
/** Part of the limit from which the end of the process is near. */
const SHORT = 0.9;
/** Part of the limit below which memory is no longer short, so that a process at the border does not alternate. */
const ENOUGH = 0.85;

/** Memory of the control group that the process is in, without file pages that the kernel can drop. */
export interface GroupMemory {
  readonly usedBytes: number;
  readonly limitBytes: number;
}

/** Watches the memory of the process's control group, whose limit the kernel enforces by killing the process. */
export class MemoryWatch {
  readonly #stop = new AbortController();
  readonly #endObserving: () => void;
  #memory: GroupMemory | undefined;
  #isShort = false;

  constructor(
    private readonly options: {
      readonly read: () => Promise<GroupMemory | undefined>;
      readonly clock: Clock;
      readonly log: Logger;
    },
  ) {
    const said = (of: (memory: GroupMemory) => number) => (say: (value: number) => void) => {
      if (this.#memory !== undefined) say(of(this.#memory));
    };
    this.#endObserving = allEnded([
      observe(
        processMetrics.groupMemory,
        said(({ usedBytes }) => usedBytes),
      ),
      observe(
        processMetrics.groupMemoryLimit,
        said(({ limitBytes }) => limitBytes),
      ),
    ]);
    void this.#run();
  }

  close(): void {
    this.#stop.abort();
    this.#endObserving();
  }

  async #run(): Promise<void> {
    const { clock } = this.options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.#check();
      await clock.sleep(CHECK_INTERVAL_MS, signal).catch(() => {});
    }
  }

  async #check(): Promise<void> {
    const { read, log } = this.options;
    this.#memory = await read();
    const { usedBytes = 0, limitBytes = Number.POSITIVE_INFINITY } = this.#memory ?? {};
    const isShort = usedBytes >= limitBytes * (this.#isShort ? ENOUGH : SHORT);
    if (isShort === this.#isShort) return;
    this.#isShort = isShort;
    const text = `${bytesText(usedBytes)} of ${bytesText(limitBytes)} of memory are in use, and the kernel kills a process of the control group at the limit: raise MemoryMax of its unit or the container's limit`;
    if (isShort) log.warn({ alert: "memory", usedBytes, limitBytes }, text);
    else log.info({ alertEnded: "memory", usedBytes, limitBytes }, "memory is no longer short");
  }
}

/** Files of a memory controller, below its mount point. */
interface Controller {
  /** Finds the group's path in /proc/self/cgroup. */
  readonly line: RegExp;
  readonly folder: string;
  readonly limit: string;
  readonly current: string;
  readonly droppable: RegExp;
}

const CONTROLLERS: readonly Controller[] = [
  {
    line: /^0::(.+)$/m,
    folder: "",
    limit: "memory.max",
    current: "memory.current",
    droppable: /^inactive_file (\d+)$/m,
  },
  {
    line: /^\d+:(?:[a-z_]+,)*memory(?:,[a-z_]+)*:(.+)$/m,
    folder: "memory",
    limit: "memory.limit_in_bytes",
    current: "memory.usage_in_bytes",
    droppable: /^total_inactive_file (\d+)$/m,
  },
];

/**
 * Reads the memory of the process's control group, of version 2 or 1. Returns undefined without a limit, and where there
 * is no such group. `procFile` and `root` are /proc/self/cgroup and /sys/fs/cgroup.
 */
export async function readGroupMemory(procFile: string, root: string): Promise<GroupMemory | undefined> {
  const groups = await readFile(procFile, "utf8").catch(() => "");
  for (const controller of CONTROLLERS) {
    const path = controller.line.exec(groups)?.[1];
    if (path === undefined) continue;
    // In a container, the path may be that of the host, and the container's own group is mounted at the root.
    for (const at of [path, "/"]) {
      const memory = await readController(controller, join(root, controller.folder, at)).catch(() => undefined);
      if (memory !== undefined) return memory;
    }
  }
  return undefined;
}

async function readController(
  { limit, current, droppable }: Controller,
  folder: string,
): Promise<GroupMemory | undefined> {
  const read = (name: string) => readFile(join(folder, name), "utf8");
  const limitBytes = Number.parseInt(await read(limit), 10);
  // Version 1 says no limit by a number near 2^63, version 2 by "max".
  if (!Number.isSafeInteger(limitBytes)) return undefined;
  const [used, stat] = await Promise.all([read(current), read("memory.stat")]);
  const droppableBytes = Number(droppable.exec(stat)?.[1] ?? 0);
  return { usedBytes: Math.max(0, Number.parseInt(used, 10) - droppableBytes), limitBytes };
}
