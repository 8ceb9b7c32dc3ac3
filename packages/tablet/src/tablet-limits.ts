/** Limits of one tablet: sizes of its queues, and timeouts. */
export interface TabletLimits {
  /** Limit of a commit, if the storage does not have a lower one. A larger transaction is refused. */
  readonly commitSizeBytes: number;
  /**
   * Size of the changes that may wait to become durable; beyond it transactions are refused until the storage has
   * caught up.
   */
  readonly pendingSizeBytes: number;
  readonly pendingTransactions: number;
  /** Timeout of a commit. A slower commit counts as failed with an unknown outcome, and the tablet is lost. */
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
