import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Environment of a Node.js process that collects its garbage whenever it gets SIGUSR2. */
export const COLLECTS_ON_SIGUSR2 = {
  NODE_OPTIONS: `--import=${new URL("./collect-on-signal.js", import.meta.url).href}`,
};

/** Collects what nothing in this process reaches any more. What waits for a turn of the event loop is reached still. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
