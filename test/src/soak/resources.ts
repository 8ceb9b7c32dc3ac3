import { readFileSync } from "node:fs";
import { openFiles } from "../mesh/device-files.js";

const PAGE_BYTES = 4_096;
const MIB_BYTES = 1024 * 1024;
const SAMPLE_EVERY_MS = 5_000;

/** Resources that a process holds. */
export interface Held {
  readonly pid: number;
  readonly residentMib: number;
  /** Number of descriptors, without the files of event streams. */
  readonly descriptors: number;
}

export interface Sample {
  readonly atMs: number;
  readonly processes: Readonly<Record<string, Held>>;
}

/** Allowed growth of an idle process between beginning and end. */
const MORE_DESCRIPTORS = 20;
const MORE_MEMORY = { times: 2, mib: 64 } as const;

/** Samples the resources of all processes periodically. */
export class Resources implements Disposable {
  readonly samples: Sample[] = [];
  readonly #startedAtMs = performance.now();
  readonly #timer = setInterval(() => this.look(), SAMPLE_EVERY_MS);

  constructor(private readonly pids: () => ReadonlyMap<string, number>) {}

  look(): Sample {
    const processes: Record<string, Held> = {};
    for (const [name, pid] of this.pids()) {
      const held = heldBy(pid);
      if (held !== undefined) processes[name] = held;
    }
    const sample = { atMs: Math.round(performance.now() - this.#startedAtMs), processes };
    this.samples.push(sample);
    return sample;
  }

  /** Maximum of each resource, by process. */
  get peaks(): Map<string, Omit<Held, "pid">> {
    const peaks = new Map<string, Omit<Held, "pid">>();
    for (const { processes } of this.samples)
      for (const [name, held] of Object.entries(processes)) {
        const { residentMib = 0, descriptors = 0 } = peaks.get(name) ?? {};
        peaks.set(name, {
          residentMib: Math.max(residentMib, held.residentMib),
          descriptors: Math.max(descriptors, held.descriptors),
        });
      }
    return peaks;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Returns a line for each resource that grew between two idle moments. */
export function growth(before: Sample, after: Sample): string[] {
  return Object.entries(after.processes).flatMap(([name, now]) => {
    const then = before.processes[name];
    if (then === undefined) return [];
    const found: string[] = [];
    if (now.descriptors > then.descriptors + MORE_DESCRIPTORS)
      found.push(`${name} holds ${now.descriptors} descriptors at rest, and held ${then.descriptors}`);
    if (now.residentMib > then.residentMib * MORE_MEMORY.times + MORE_MEMORY.mib)
      found.push(`${name} holds ${now.residentMib} MiB at rest, and held ${then.residentMib}`);
    return found;
  });
}

/** Matches files of event logs, of which a service keeps 64 open for the next append. */
const EVENT_STREAM = /\/stream\.[^/]+$/;

/** Returns the resources of a process; undefined when it has ended. */
function heldBy(pid: number): Held | undefined {
  try {
    const [, residentPages = "0"] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ");
    const residentMib = Math.round((Number(residentPages) * PAGE_BYTES) / MIB_BYTES);
    const descriptors = openFiles(pid).filter((path) => !EVENT_STREAM.test(path)).length;
    return { pid, residentMib, descriptors };
  } catch {
    return undefined;
  }
}
