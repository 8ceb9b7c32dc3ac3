import type { Numbers } from "../disks/remembered.js";

/** Numbers in an agent's report that was not believed, and the time. */
export interface Refused extends Numbers {
  readonly heardAtMs: number;
}
