import type { Instance } from "../store/instance.js";

/** Which groups a rule is for. */
export interface GroupFilter {
  /** Empty for any. */
  readonly deployments: readonly string[];
  /** Empty for any. */
  readonly groups: readonly string[];
}

/** A rule of a config of type "resurrection", for the groups that it includes, without those that it excludes. */
export interface ResurrectionRule {
  readonly isOn: boolean;
  readonly include: GroupFilter;
  /** Empty, it excludes none. */
  readonly exclude: GroupFilter;
}

type Place = Pick<Instance, "deployment" | "group">;

/** Returns false when any rule forbids it, as directors of BOSH do; no rule allows it. */
export function rulesAllow(rules: readonly ResurrectionRule[], place: Place): boolean {
  return rules.every((rule) => rule.isOn || !isFor(rule, place));
}

function isFor({ include, exclude }: ResurrectionRule, place: Place): boolean {
  return matches(include, place) && (isEmpty(exclude) || !matches(exclude, place));
}

function matches({ deployments, groups }: GroupFilter, { deployment, group }: Place): boolean {
  return (
    (deployments.length === 0 || deployments.includes(deployment)) && (groups.length === 0 || groups.includes(group))
  );
}

function isEmpty({ deployments, groups }: GroupFilter): boolean {
  return deployments.length === 0 && groups.length === 0;
}

/** The configured rules on VMs to be made anew, beside the switches in the tables. */
export interface ResurrectionWishes {
  readonly isOnByDefault: boolean;
  readonly rules: readonly ResurrectionRule[];
}
