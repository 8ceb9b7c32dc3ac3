import type { Instance } from "../store/instance.js";

export const EVERYWHERE = "*";

/** Returns the key of a scope. A space separates the names because names contain no spaces. */
export function scopeOf(deployment: string, group: string): string {
  return group === "" ? deployment : `${deployment} ${group}`;
}

/**
 * Returns true when resurrection is on for the group. The global switch must be on; after that the switch of the group
 * takes precedence over the switch of the deployment.
 */
export function isSwitchedOn(
  isOnOf: (scope: string) => boolean | undefined,
  { deployment, group }: Pick<Instance, "deployment" | "group">,
  isOnByDefault: boolean,
): boolean {
  if (!(isOnOf(EVERYWHERE) ?? isOnByDefault)) return false;
  return isOnOf(scopeOf(deployment, group)) ?? isOnOf(deployment) ?? true;
}
