/** The switch for making dead VMs anew unasked: of all, of a deployment, or of one of its groups. */
export interface ResurrectionSwitch {
  /** See `scopeOf`. */
  readonly scope: string;
  readonly isOn: boolean;
}
