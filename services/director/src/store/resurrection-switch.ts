/** Whether VMs that are gone are made anew without being asked for: of all, of a deployment, or of one of its groups. */
export interface ResurrectionSwitch {
  /** See `scopeOf`. */
  readonly scope: string;
  readonly isOn: boolean;
}
