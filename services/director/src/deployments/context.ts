import type { Slots } from "@diskmesh/service";
import type { VmJobContext } from "../vms/context.js";

/** Context of jobs and steps on whole deployments. */
export interface DeploymentJobContext extends VmJobContext {
  /** Returns the semaphore that limits concurrent VM work of a CPI. */
  readonly vmSlots: (cpi: string) => Slots;
}
