import type { Instance } from "../store/instance.js";

export const EVERYWHERE = "*";

/** Names hold no spaces, and begin with a letter or digit. */
export function scopeOf(deployment: string, group: string): string {
  return group === "" ? deployment : `${deployment} ${group}`;
}

/** Off for all is off for each; else what is said of the group counts, then of the deployment. */
export function isSwitchedOn(
  isOnOf: (scope: string) => boolean | undefined,
  { deployment, group }: Pick<Instance, "deployment" | "group">,
  isOnByDefault: boolean,
): boolean {
  if (!(isOnOf(EVERYWHERE) ?? isOnByDefault)) return false;
  return isOnOf(scopeOf(deployment, group)) ?? isOnOf(deployment) ?? true;
}
