import { MAX_CLOCK_SKEW_MS } from "@diskmesh/domain";

/** Something that an agent needs and lacks, or warns of. */
export interface MissingNeed {
  readonly need: string;
  readonly why: string;
  readonly sinceMs: number;
  /** True: the agent lacks nothing yet, but somebody must act. */
  readonly isAlert?: boolean;
}

/** Returns a missing need when the clock of the agent's machine and the registry's clock differ. */
export function clockNeed(
  sentAtMs: number,
  heardAtMs: number,
  timeText: (timeMs: number) => string,
): MissingNeed | undefined {
  if (Math.abs(sentAtMs - heardAtMs) <= MAX_CLOCK_SKEW_MS) return undefined;
  const why = `the clock of its machine showed ${timeText(sentAtMs)} when the registry's showed ${timeText(heardAtMs)}`;
  return { need: "clock", why, sinceMs: heardAtMs };
}

/**
 * Returns the needs that are missing now. Keeps the earlier entry of a need that is missing for the same reason, so that
 * its start does not move. The texts of clocks differ with each heartbeat.
 */
export function stillMissing(before: readonly MissingNeed[], now: readonly MissingNeed[]): readonly MissingNeed[] {
  return now.map((need) => before.find((each) => isSame(each, need)) ?? need);
}

function isSame(one: MissingNeed, other: MissingNeed): boolean {
  return one.need === other.need && (one.need === "clock" || one.why === other.why);
}
