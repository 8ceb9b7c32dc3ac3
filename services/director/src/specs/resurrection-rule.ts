import type { Instance } from "../store/instance.js";

/** Selects the instance groups of a rule. */
export interface GroupFilter {
  /** Empty for all. */
  readonly deployments: readonly string[];
  /** Empty for all. */
  readonly groups: readonly string[];
}

/** A rule of a "resurrection" config. It applies to the included groups except the excluded groups. */
export interface ResurrectionRule {
  readonly isOn: boolean;
  readonly include: GroupFilter;
  /** Empty when nothing is excluded. */
  readonly exclude: GroupFilter;
}

type Place = Pick<Instance, "deployment" | "group">;

/** Returns false when any rule disables resurrection, as in BOSH. An enabling rule never overrides a disabling rule. */
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

/** The configured resurrection rules, which apply in addition to the ResurrectionSwitch records. */
export interface ResurrectionWishes {
  readonly isOnByDefault: boolean;
  readonly rules: readonly ResurrectionRule[];
}
