/** Formats a time in ms for people: in UTC, to the second. */
export function timeText(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d+Z$/, "Z");
}
