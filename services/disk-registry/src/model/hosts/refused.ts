import type { Numbers } from "../disks/remembered.js";

/** Numbers in an agent's report that was refused, and the time of the report. */
export interface Refused extends Numbers {
  readonly heardAtMs: number;
}
