import { InvalidArgumentError } from "./errors.js";
import { quoted } from "./identifiers.js";

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses a person's time span, such as 90s, 15m, 2h or 7d, to ms. Throws InvalidArgumentError. */
export function parseSpanText(text: string, field: string): number {
  const [, number, unit = ""] = /^([1-9][0-9]{0,8})([smhd])$/.exec(text) ?? [];
  if (number !== undefined) return Number(number) * (UNIT_MS[unit] as number);
  throw new InvalidArgumentError(`${field} ${quoted(text)} is malformed: give for example 90s, 15m, 2h or 7d`, {
    about: { field },
  });
}

/** Formats a time in ms for people: in UTC, to the second. */
export function timeText(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, "Z");
}
