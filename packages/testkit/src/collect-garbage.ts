import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects unreachable objects. Objects held only for the current turn of the event loop stay. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
