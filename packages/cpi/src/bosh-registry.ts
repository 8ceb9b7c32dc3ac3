/** From this version of the contract on, agents get settings and disks without the bosh-registry. */
const WITHOUT_REGISTRY = 2;

/**
 * Returns true when the bosh-registry serves a VM's agent: its CPI or its stemcell has version 1 (seed 000). The
 * director serves the bosh-registry by this rule, and the dispatcher forwards hints to agents where it is false.
 */
export function usesBoshRegistry(cpiApiVersion: number, stemcellApiVersion: number): boolean {
  return cpiApiVersion < WITHOUT_REGISTRY || stemcellVersionOf(stemcellApiVersion) < WITHOUT_REGISTRY;
}

/**
 * The version of a VM's stemcell. A VM without one (0) has no old agent; and stock directors, too, claim a new stemcell
 * for what they know nothing of, so that no CPI looks for a bosh-registry.
 */
export function stemcellVersionOf(stemcellApiVersion: number): number {
  return stemcellApiVersion === 0 ? WITHOUT_REGISTRY : stemcellApiVersion;
}
