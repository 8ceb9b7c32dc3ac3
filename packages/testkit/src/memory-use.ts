import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export const MEMORY_USE_FOLDER = "DISKMESH_HELD_FOLDER";

/** Memory of a process after a garbage collection. */
export interface MemoryUse {
  /** Number of collections so far, so that a reader can tell a new result from an old one. */
  readonly times: number;
  /** Bytes in JavaScript's heap and in buffers outside of it. */
  readonly heapBytes: number;
  /** Number of open handles and pending requests: sockets, timers, watchers. */
  readonly resources: number;
}

/** Environment that makes a Node.js process collect its garbage at each SIGUSR2. */
export const COLLECTS_ON_SIGUSR2 = {
  NODE_OPTIONS: `--import=${new URL("./collect-on-signal.js", import.meta.url).href}`,
};

/** Like COLLECTS_ON_SIGUSR2; after each collection the process also writes a `MemoryUse` to `memoryUseFile`. */
export function reportsMemoryUseIn(folder: string): Readonly<Record<string, string>> {
  return { ...COLLECTS_ON_SIGUSR2, [MEMORY_USE_FOLDER]: folder };
}

export function memoryUseFile(folder: string, pid: number): string {
  return join(folder, `held-${pid}.json`);
}

/** Collects unreachable objects. Objects held only for the current turn of the event loop stay. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
