/** Limits of one tablet: how much it holds back and how long it waits. */
export interface TabletLimits {
  /** The largest commit, if the storage takes it. A larger transaction is refused. */
  readonly commitSizeBytes: number;
  /** Changes that may wait to become durable; beyond that, transactions are refused until the storage has caught up. */
  readonly pendingSizeBytes: number;
  readonly pendingTransactions: number;
  /** A commit that takes longer counts as failed with an unknown outcome, and the tablet is lost. */
  readonly commitTimeoutMs: number;
  readonly renewIntervalMs: number;
}

export const DEFAULT_TABLET_LIMITS: TabletLimits = {
  commitSizeBytes: 8 * 1024 * 1024,
  pendingSizeBytes: 64 * 1024 * 1024,
  pendingTransactions: 65_536,
  commitTimeoutMs: 30_000,
  renewIntervalMs: 1_000,
};
