/** A stemcell as uploaded to a CPI. */
export interface Stemcell {
  readonly name: string;
  readonly version: string;
  readonly operatingSystem: string;
  /** The API version of the stemcell's agent; 1 when the stemcell's manifest contains none. */
  readonly apiVersion: number;
  /** Empty for the default CPI. */
  readonly cpi: string;
  /** Empty when the CPI does not support stemcells and makes VMs without them. */
  readonly stemcellCid: string;
  readonly createdAtMs: number;
  /** Set when the deletion has begun. No VM may be made from the stemcell from then on. */
  readonly deleting: boolean;
  /** CPIs that do not take the stemcell's formats. Undefined for none. */
  readonly unfitCpis?: readonly string[] | undefined;
}

export function formatStemcell(stemcell: { readonly name: string; readonly version: string }): string {
  return `${stemcell.name}/${stemcell.version}`;
}
