import type { Slots } from "@diskmesh/service";
import type { VmJobContext } from "../vms/context.js";

export interface DeploymentJobContext extends VmJobContext {
  /** Returns the semaphore that limits concurrent VM work of a CPI. */
  readonly vmSlots: (cpi: string) => Slots;
}
