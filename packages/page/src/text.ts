const SECOND_MS = 1_000;
const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400 * SECOND_MS, "d"],
  [3_600 * SECOND_MS, "h"],
  [60 * SECOND_MS, "min"],
  [SECOND_MS, "s"],
];

/** Formats an age in the largest unit that fits. */
export function ageText(sinceMs: number, nowMs = Date.now()): string {
  const ms = Math.max(0, nowMs - sinceMs);
  const [unitMs, name] = UNITS.find(([each]) => ms >= each) ?? [SECOND_MS, "s"];
  return `${Math.floor(ms / unitMs)} ${name}`;
}

/** Formats the time until something ends, rounded up, in the largest unit of which it has two. */
export function leftText(ms: number): string {
  const [unitMs, name] = UNITS.find(([each]) => ms >= 2 * each) ?? [SECOND_MS, "s"];
  return `${Math.ceil(ms / unitMs)} ${name}`;
}

/** Formats the time of an agent's last message with the precision that the director reports. */
export function heardText(heardMs: number, nowMs = Date.now()): string {
  if (heardMs === 0) return "never";
  return nowMs - heardMs < 120 * SECOND_MS ? "lately" : `${ageText(heardMs, nowMs)} ago`;
}

/** Formats a time with its date, unless the time is today. */
export function whenText(timeMs: number, nowMs = Date.now()): string {
  const time = new Date(timeMs);
  if (time.toDateString() === new Date(nowMs).toDateString()) return clockText(timeMs);
  return `${time.toLocaleDateString(undefined, { day: "numeric", month: "short" })} ${clockText(timeMs)}`;
}

export function clockText(timeMs: number): string {
  return new Date(timeMs).toLocaleTimeString(undefined, { hour12: false });
}

export function sizeText(sizeBytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const power = sizeBytes === 0 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(sizeBytes) / 10));
  return `${Number((sizeBytes / 1024 ** power).toFixed(1))} ${units[power]}`;
}

export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Returns the name for people of an enum value of the registry, such as "ATTACH_STATE_ATTACHED". */
export function stateText(value: string): string {
  return value.replace(/^(?:ATTACH_STATE|COPY_STATE|HEALTH)_/, "").toLowerCase();
}

const KIND_TEXTS: Readonly<Record<string, string>> = { source: "service", vm: "VM", cpi: "CPI" };

/** Returns a kind's name for people. */
export function kindText(kind: string): string {
  return KIND_TEXTS[kind] ?? kind;
}
