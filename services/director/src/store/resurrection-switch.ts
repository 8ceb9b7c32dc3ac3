/** Enables or disables automatic VM recreation for all deployments, a deployment or an instance group. */
export interface ResurrectionSwitch {
  /** See `scopeOf`. */
  readonly scope: string;
  readonly isOn: boolean;
}
