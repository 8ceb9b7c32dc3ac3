import type { Slots } from "@diskmesh/service";
import type { VmJobContext } from "../vms/context.js";

/** Jobs and steps on whole deployments. */
export interface DeploymentJobContext extends VmJobContext {
  /** VMs of a CPI that are worked on at once. */
  readonly vmSlots: (cpi: string) => Slots;
}
