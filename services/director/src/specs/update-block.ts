import { InvalidArgumentError } from "@diskmesh/domain";

/** Formats of BOSH's `update` values, which may be given as texts, with at most nine digits. */
const COUNT = /^[0-9]{1,9}$/;
const SHARE = /^[0-9]{1,9}%$/;
const WATCH_TIME = /^\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?$/;

/** The time after an instance's start during which the director polls whether the instance runs. */
export interface WatchTime {
  readonly minMs: number;
  readonly maxMs: number;
}

/** The update options of an instance group. */
export interface UpdateBlock {
  /** Instances updated first; the others follow only if these succeed. A number, or a percentage such as "20%". */
  readonly canaries: string;
  /** Maximum of instances updated concurrently. */
  readonly maxInFlight: string;
  readonly canaryWatchTime: WatchTime;
  readonly updateWatchTime: WatchTime;
  /** True when the group is updated alone; false when it may be updated together with adjacent non-serial groups. */
  readonly serial: boolean;
}

const DEFAULT_WATCH_TIME: WatchTime = { minMs: 0, maxMs: 300_000 };

/**
 * Defaults for a manifest without an update block, although BOSH requires the block. The values are the most cautious.
 */
const DEFAULT_UPDATE: UpdateBlock = {
  canaries: "1",
  maxInFlight: "1",
  canaryWatchTime: DEFAULT_WATCH_TIME,
  updateWatchTime: DEFAULT_WATCH_TIME,
  serial: true,
};

/** Throws unless the value is a number of instances or a percentage: 2, "2", "20%". */
export function checkCount(value: unknown): void {
  if (!isCount(value)) throw new InvalidArgumentError('give a whole number, or a percentage such as "20%"');
}

/** Throws unless the value is a time in ms or a range of times: 30000, "1000-60000". */
export function checkWatchTime(value: unknown): void {
  const range = rangeOf(value);
  if (range === undefined)
    throw new InvalidArgumentError('give milliseconds, such as 30000, or a range, such as "1000-60000"');
  if (range.minMs > range.maxMs) throw new InvalidArgumentError("the minimum watch time is above the maximum");
}

/**
 * Returns the group's update block, with the deployment's block as the fallback. Invalid values, which earlier releases
 * stored unchecked, count as absent.
 */
export function updateBlockOf(deployment: unknown, group: unknown): UpdateBlock {
  const blocks = [group, deployment].map(asObject);
  const first = <Value>(key: string, read: (value: unknown) => Value | undefined): Value | undefined =>
    blocks.map((block) => read(block[key])).find((value) => value !== undefined);
  const count = (value: unknown) => (isCount(value) ? String(value) : undefined);
  return {
    canaries: first("canaries", count) ?? DEFAULT_UPDATE.canaries,
    maxInFlight: first("max_in_flight", count) ?? DEFAULT_UPDATE.maxInFlight,
    canaryWatchTime: first("canary_watch_time", watchTimeOf) ?? DEFAULT_UPDATE.canaryWatchTime,
    updateWatchTime: first("update_watch_time", watchTimeOf) ?? DEFAULT_UPDATE.updateWatchTime,
    serial: first("serial", (value) => (typeof value === "boolean" ? value : undefined)) ?? DEFAULT_UPDATE.serial,
  };
}

/** Returns the number of canaries among `size` instances. */
export function canariesOf({ canaries }: Pick<UpdateBlock, "canaries">, size: number): number {
  return Math.min(countOf(canaries, size), size);
}

/** Returns the number of instances to update concurrently, at least one. */
export function maxInFlightOf({ maxInFlight }: Pick<UpdateBlock, "maxInFlight">, size: number): number {
  return Math.max(1, countOf(maxInFlight, size));
}

/** Percentages are rounded down, as in BOSH: 50 % of three is one. */
function countOf(count: string, size: number): number {
  const share = SHARE.test(count);
  return share ? Math.min(Math.floor((Number.parseInt(count, 10) * size) / 100), size) : Number(count);
}

const CHECKS = 10;
const MIN_INTERVAL_MS = 1_000;
const MAX_INTERVAL_MS = 15_000;

/** Returns the pauses in ms between the polls of a starting instance, as in BOSH. */
export function watchPausesMs({ minMs, maxMs }: WatchTime): number[] {
  const restMs = maxMs - minMs;
  const stepMs = Math.min(Math.max(MIN_INTERVAL_MS, restMs / (CHECKS - 1)), MAX_INTERVAL_MS);
  return [minMs, ...Array.from({ length: Math.floor(restMs / stepMs) }, () => stepMs)];
}

function watchTimeOf(value: unknown): WatchTime | undefined {
  const range = rangeOf(value);
  return range !== undefined && range.minMs <= range.maxMs ? range : undefined;
}

function rangeOf(value: unknown): WatchTime | undefined {
  const [, min, max = min] = (isTextOrNumber(value) ? WATCH_TIME.exec(String(value)) : null) ?? [];
  return min === undefined ? undefined : { minMs: Number(min), maxMs: Number(max) };
}

function isCount(value: unknown): value is string | number {
  return isTextOrNumber(value) && (COUNT.test(String(value)) || SHARE.test(String(value)));
}

function isTextOrNumber(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
