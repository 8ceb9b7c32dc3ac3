/** A stemcell with one CPI. */
export interface Stemcell {
  readonly name: string;
  readonly version: string;
  readonly operatingSystem: string;
  /** The API version of its agent; 1 when its manifest says none. */
  readonly apiVersion: number;
  /** Empty for the default CPI. */
  readonly cpi: string;
  /** Empty where the CPI makes none: its VMs are made without. */
  readonly stemcellCid: string;
  readonly createdAtMs: number;
  /** Its deletion has begun: no VM may be made of it any more. */
  readonly deleting: boolean;
}

export function formatStemcell(stemcell: { readonly name: string; readonly version: string }): string {
  return `${stemcell.name}/${stemcell.version}`;
}
