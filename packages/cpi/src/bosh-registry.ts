/** First version of the CPI contract with which agents get settings and disks without the bosh-registry. */
const WITHOUT_REGISTRY = 2;

/**
 * Returns true when the bosh-registry serves a VM's agent: its CPI or its stemcell has version 1 (seed 000). The
 * director serves the bosh-registry by this rule, and the dispatcher forwards hints to agents where it is false.
 */
export function usesBoshRegistry(cpiApiVersion: number, stemcellApiVersion: number): boolean {
  return cpiApiVersion < WITHOUT_REGISTRY || stemcellVersionOf(stemcellApiVersion) < WITHOUT_REGISTRY;
}

/**
 * Returns the API version of a VM's stemcell. 0 means a VM without a stemcell, which has no old agent and so counts as
 * current.
 */
export function stemcellVersionOf(stemcellApiVersion: number): number {
  return stemcellApiVersion === 0 ? WITHOUT_REGISTRY : stemcellApiVersion;
}
