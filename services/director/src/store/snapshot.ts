/** A snapshot of a persistent disk. It outlives its disk and its deployment. */
export interface Snapshot {
  /** Chosen by us: the intent to take it. */
  readonly token: string;
  /** Empty until it is known to exist. */
  readonly snapshotCid: string;
  readonly deployment: string;
  readonly group: string;
  readonly instanceId: string;
  readonly index: number;
  readonly diskCid: string;
  readonly az: string;
  readonly cpi: string;
  readonly takenByTaskId: number;
  readonly createdAtMs: number;
}

export function snapshotKey({ token }: Pick<Snapshot, "token">): string {
  return token;
}
