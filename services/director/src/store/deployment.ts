/** A named set of instances. */
export interface Deployment {
  readonly name: string;
  /** The last manifest deployed. */
  readonly manifest: string;
  /** Its deletion has begun: nothing may be added to it. */
  readonly deleting: boolean;
  /** The task that last looked whether its VMs are there and their agents answer; 0 for none since the last manifest. */
  readonly checkedByTaskId: number;
  /** The cloud configs of the last deploy. Absent where an older version deployed it. */
  readonly cloudConfigIds?: readonly number[] | undefined;
  /** The teams whose members may change it; absent for administrators alone. */
  readonly teams?: readonly string[] | undefined;
}
