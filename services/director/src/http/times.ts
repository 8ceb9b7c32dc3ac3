/** Formats a time as BOSH does, e.g. "2026-01-01 00:00:00 UTC". */
export function timeText(date: Date | undefined): string | null {
  return date === undefined ? null : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
