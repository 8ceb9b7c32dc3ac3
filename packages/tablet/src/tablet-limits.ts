/** Sizes of a tablet's queues, and timeouts. */
export interface TabletLimits {
  /** Maximum size of a commit, unless the storage has a lower one. A larger transaction is refused. */
  readonly commitSizeBytes: number;
  /**
   * Maximum size of changes that wait to become durable. At the limit, transactions are refused until the storage has
   * caught up.
   */
  readonly pendingSizeBytes: number;
  readonly pendingTransactions: number;
  /** Timeout of a commit. A slower commit fails with an unknown outcome, and the tablet is lost. */
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
