import { InvalidArgumentError } from "@diskmesh/domain";

/** Numbers and shares in BOSH's `update`, which may be written as texts. Of at most nine digits. */
const COUNT = /^[0-9]{1,9}$/;
const SHARE = /^[0-9]{1,9}%$/;
const WATCH_TIME = /^\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?$/;

/** From when to when after its start an instance is asked whether it runs. */
export interface WatchTime {
  readonly minMs: number;
  readonly maxMs: number;
}

/** How the instances of a group are updated. */
export interface UpdateBlock {
  /** So many go first, and the others only when these have succeeded: a number, or a share such as "20%". */
  readonly canaries: string;
  /** So many at once. */
  readonly maxInFlight: string;
  readonly canaryWatchTime: WatchTime;
  readonly updateWatchTime: WatchTime;
  /** True when the group is updated alone, rather than together with neighbours that are not serial. */
  readonly serial: boolean;
}

const DEFAULT_WATCH_TIME: WatchTime = { minMs: 0, maxMs: 300_000 };

/** BOSH demands the block; who gives none has the most careful one. */
const DEFAULT_UPDATE: UpdateBlock = {
  canaries: "1",
  maxInFlight: "1",
  canaryWatchTime: DEFAULT_WATCH_TIME,
  updateWatchTime: DEFAULT_WATCH_TIME,
  serial: true,
};

/** Throws unless it is so many instances, or so many per cent of them: 2, "2", "20%". */
export function checkCount(value: unknown): void {
  if (!isCount(value)) throw new InvalidArgumentError('give a whole number, or a share such as "20%"');
}

/** Throws unless it is so long, or at least and at most so long, in ms: 30000, "1000-60000". */
export function checkWatchTime(value: unknown): void {
  const range = rangeOf(value);
  if (range === undefined)
    throw new InvalidArgumentError('give milliseconds, such as 30000, or a range, such as "1000-60000"');
  if (range.minMs > range.maxMs) throw new InvalidArgumentError("the least watch time is above the most");
}

/** Returns a group's block, or else the deployment's. Values that earlier releases took unchecked count as absent. */
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

/** How many of so many instances go first. */
export function canariesOf({ canaries }: Pick<UpdateBlock, "canaries">, size: number): number {
  return Math.min(countOf(canaries, size), size);
}

/** How many of so many instances go at once: at least one. */
export function maxInFlightOf({ maxInFlight }: Pick<UpdateBlock, "maxInFlight">, size: number): number {
  return Math.max(1, countOf(maxInFlight, size));
}

/** Shares are rounded down, as in BOSH: 50% of three is one. */
function countOf(count: string, size: number): number {
  const share = SHARE.test(count);
  return share ? Math.min(Math.floor((Number.parseInt(count, 10) * size) / 100), size) : Number(count);
}

const CHECKS = 10;
const MIN_INTERVAL_MS = 1_000;
const MAX_INTERVAL_MS = 15_000;

/** The pauses, in ms, after each of which an instance is asked whether it runs; BOSH's. */
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
