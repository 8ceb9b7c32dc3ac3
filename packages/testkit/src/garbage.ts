import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export const HELD_FOLDER = "DISKMESH_HELD_FOLDER";

/** The memory of a process after a garbage collection. */
export interface Held {
  /** How often it has been asked. */
  readonly times: number;
  /** Bytes in JavaScript's heap and in buffers outside of it. */
  readonly heapBytes: number;
  /** Handles and requests under way: sockets, timers, watchers. */
  readonly resources: number;
}

/** Environment of a Node.js process that collects its garbage whenever it gets SIGUSR2. */
export const COLLECTS_ON_SIGUSR2 = {
  NODE_OPTIONS: `--import=${new URL("./collect-on-signal.js", import.meta.url).href}`,
};

/** The same, of one that then says in a file of that folder what it holds. */
export function tellsHeldIn(folder: string): Readonly<Record<string, string>> {
  return { ...COLLECTS_ON_SIGUSR2, [HELD_FOLDER]: folder };
}

/** Where a process says it. */
export function heldFile(folder: string, pid: number): string {
  return join(folder, `held-${pid}.json`);
}

/** Collects what nothing in this process reaches any more. What waits for a turn of the event loop is reached still. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
