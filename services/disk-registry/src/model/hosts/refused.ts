import type { Numbers } from "../disks/remembered.js";

/** What an agent said that is not believed, and when. */
export interface Refused extends Numbers {
  readonly heardAtMs: number;
}
