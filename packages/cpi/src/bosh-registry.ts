/** Of the contract, from which on agents get their settings and disks without the bosh-registry. */
const WITHOUT_REGISTRY = 2;

/**
 * Whether a VM's agent is served by the bosh-registry: its CPI or its stemcell is of version 1 (seed 000). The one rule
 * for the director, which serves the bosh-registry, and the dispatcher, which passes on hints where there is none.
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
