export interface Deployment {
  readonly name: string;
  /** The last manifest deployed. */
  readonly manifest: string;
  /** Set when the deletion has begun. Nothing may be added to the deployment from then on. */
  readonly deleting: boolean;
  /**
   * The task that last checked the deployment's VMs and agents; 0 when no task has checked them since the manifest was
   * stored.
   */
  readonly checkedByTaskId: number;
  /** The cloud configs of the last deploy. */
  readonly cloudConfigIds: readonly number[];
  /** Teams whose members may change the deployment; undefined means administrators only. */
  readonly teams?: readonly string[] | undefined;
}
