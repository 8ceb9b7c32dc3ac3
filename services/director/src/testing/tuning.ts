import type { DirectorLimits } from "../config/limits.js";

type Changes<Limits> = {
  readonly [Name in keyof Limits]?: Limits[Name] extends number ? number : Changes<Limits[Name]>;
};

/** Limits that a test overrides. */
export type Tuning = Changes<DirectorLimits>;

/** Returns the limits with the changes. Throws TypeError for an unknown limit. */
export function changed<Limits extends object>(limits: Limits, changes: Changes<Limits>): Limits {
  const all = { ...limits } as Record<string, unknown>;
  for (const [name, change] of Object.entries(changes)) {
    const limit = all[name];
    if (limit === undefined) throw new TypeError(`there is no limit ${name}`);
    all[name] = limit instanceof Object ? changed(limit, change as object) : change;
  }
  return all as Limits;
}
