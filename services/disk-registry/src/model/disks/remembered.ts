import { type HostId, InvalidStateError } from "@diskmesh/domain";
import { lastReportedGapAtMs, lastValue, skipValues } from "../devices/counters.js";
import type { Leader } from "../devices/orders.js";
import type { OtherFleet } from "../store/other-fleet.js";
import { fleetKey, type RegistryTables, type RegistryTransaction, type Start, schema } from "../store/schema.js";

/** Highest numbers issued, or remembered by an agent; 0 for none. */
export interface Numbers {
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly sessionNumber: number;
}

/** Numbers that an agent remembers, and the registry that it obeys. */
export interface Remembered extends Numbers {
  /** Empty when the agent never obeyed a registry. */
  readonly tabletId: string;
  /** Empty when the agent never received an incarnation. */
  readonly incarnation: string;
}

/** Limits on numbers that agents report. */
export interface BelievedNumbers {
  /** Maximum lead over this registry's own number at which a number in an agent's report is believed. */
  readonly believedAhead: number;
  /**
   * Minimum interval between two raises of the registry's counters that an agent's report triggers. RaiseNumbers is not
   * limited.
   */
  readonly raiseIntervalMs: number;
}

/**
 * Relation of the registry that an agent obeys to this one. A `predecessor` is an incarnation that this registry was
 * restored from or has adopted; its agents change over when they register.
 */
export type Origin = "own" | "predecessor" | "other incarnation" | "other tablet";

export function originOf(
  tables: RegistryTables,
  leader: Leader,
  parentIncarnations: readonly string[],
  remembered: Pick<Remembered, "tabletId" | "incarnation">,
): Origin {
  const { tabletId, incarnation } = remembered;
  if (tabletId === "") return "own";
  const isOwnTablet = tabletId === leader.tabletId;
  if (isOwnTablet && (incarnation === leader.incarnation || incarnation === "")) return "own";
  if (isOwnTablet && parentIncarnations.includes(incarnation)) return "predecessor";
  if (tables.fleets.get(fleetKey(remembered))?.adoptedAtMs !== undefined) return "predecessor";
  return isOwnTablet ? "other incarnation" : "other tablet";
}

/** Returns the incarnations whose agents belong to this registry. */
export function predecessorsOf(
  tables: RegistryTables,
  leader: Leader,
  parentIncarnations: readonly string[],
): { readonly tabletId: string; readonly incarnation: string }[] {
  const parents = parentIncarnations.map((incarnation) => ({ tabletId: leader.tabletId, incarnation }));
  const adopted = [...tables.fleets.entries()].filter(({ adoptedAtMs }) => adoptedAtMs !== undefined);
  return [...parents, ...adopted.map(({ tabletId, incarnation }) => ({ tabletId, incarnation }))];
}

export function ownNumbers(tables: RegistryTables, leader: Leader): Numbers {
  return {
    tabletGeneration: leader.tabletGeneration,
    deviceGeneration: lastValue(tables, "device_generation"),
    sessionNumber: lastValue(tables, "session_number"),
  };
}

const NAMES: Readonly<Record<keyof Numbers, string>> = {
  tabletGeneration: "tablet generation",
  deviceGeneration: "device generation",
  sessionNumber: "session number",
};
const FIELDS = Object.keys(NAMES) as (keyof Numbers)[];

/**
 * `raise`: the agent has seen believable numbers that this registry has not issued, so the registry's store is an old
 * copy.
 */
export type NumbersVerdict =
  | { readonly verdict: "known" }
  | { readonly verdict: "raise" }
  /** Only an operator can decide which registry issued the number. */
  | { readonly verdict: "refuse"; readonly reason: string };

/** Returns the highest numbers that an agent can remember before this leader has sent orders. */
export function numbersAtFirst(own: Numbers): Numbers {
  return { ...own, tabletGeneration: own.tabletGeneration - 1 };
}

/**
 * Returns the highest numbers that an agent can remember if it obeyed no generation above `generation` and this leader
 * has sent it nothing: the numbers issued before the next generation's leader began. Higher numbers in its memory were
 * issued by another registry.
 */
export function numbersKnownTo(tables: RegistryTables, atFirst: Numbers, generation: number): Numbers {
  for (const start of tables.starts.entries())
    if (start.tabletGeneration > generation) return { ...start, tabletGeneration: atFirst.tabletGeneration };
  return atFirst;
}

/**
 * Maximum leader starts kept. An agent that obeyed an older generation is compared with the numbers of the oldest kept
 * start.
 */
const MAX_STARTS = 64;

/** Records the numbers that had been issued when this leader began. */
export function noteStart(tx: RegistryTransaction, numbers: Numbers): void {
  const starts = [...tx.starts.entries()];
  const last = starts.at(-1);
  const isSame = last?.deviceGeneration === numbers.deviceGeneration && last.sessionNumber === numbers.sessionNumber;
  if (isSame) return;
  const { tabletGeneration, deviceGeneration, sessionNumber } = numbers;
  tx.starts.put({ tabletGeneration, deviceGeneration, sessionNumber });
  for (const start of starts.slice(0, Math.max(0, starts.length + 1 - MAX_STARTS))) forgetStart(tx, start);
}

export function forgetStarts(tx: RegistryTransaction): void {
  for (const start of [...tx.starts.entries()]) forgetStart(tx, start);
}

function forgetStart(tx: RegistryTransaction, start: Start): void {
  tx.starts.delete(schema.starts.key(start));
}

/**
 * Compares the numbers that an agent remembers with `own`, the highest ones that it can remember. Compares only session
 * numbers for an agent of a predecessor, because it drops its remembered generations when it changes over to this
 * registry.
 */
export function judgeNumbers(
  tables: RegistryTables,
  own: Numbers,
  remembered: Remembered,
  origin: "own" | "predecessor",
  { believedAhead, raiseIntervalMs }: BelievedNumbers,
  nowMs: number,
): NumbersVerdict {
  const fields = origin === "own" ? FIELDS : (["sessionNumber"] as const);
  const higher = fields.filter((field) => remembered[field] > own[field]);
  if (higher.length === 0) return { verdict: "known" };
  const said = higher
    .map((field) => `${NAMES[field]} ${remembered[field]}, but the registry has ${own[field]}`)
    .join("; ");
  if (higher.some((field) => remembered[field] > own[field] + believedAhead))
    return {
      verdict: "refuse",
      reason: `${said}: without an operator the registry accepts a report of at most ${believedAhead} above its own`,
    };
  const lastAtMs = lastReportedGapAtMs(tables);
  // `nowMs >= lastAtMs` prevents an endless wait after the clock was set back.
  if (lastAtMs !== undefined && nowMs >= lastAtMs && nowMs - lastAtMs < raiseIntervalMs)
    return {
      verdict: "refuse",
      reason: `${said}: the registry accepted an agent's report ${Math.round((nowMs - lastAtMs) / 1_000)} s ago, and accepts the next after ${raiseIntervalMs / 1_000} s`,
    };
  return { verdict: "raise" };
}

export function refusedNumbers(hostId: HostId, reason: string): Error {
  return new InvalidStateError(
    `the agent of host ${hostId} remembers ${reason}. If an older copy of the registry's store was put back, or the ` +
      "registry truly issued these numbers, call RaiseNumbers as an operator; else remove the agent's cache file",
    { about: { host_id: hostId } },
  );
}

/**
 * Returns the highest numbers that the registry believes from an agent's report, so that one raise covers the reports
 * of all agents.
 */
export function raisedAbove(own: Numbers, believedAhead: number): Numbers {
  return {
    tabletGeneration: own.tabletGeneration + believedAhead,
    deviceGeneration: own.deviceGeneration + believedAhead,
    sessionNumber: own.sessionNumber + believedAhead,
  };
}

/**
 * Raises the counters; the caller has claimed the tablet generation before. Numbers up to `above` were certainly issued
 * by this registry.
 */
export function raiseCounters(
  tx: RegistryTransaction,
  upTo: Numbers,
  { above, reportedAtMs }: { readonly above: Numbers; readonly reportedAtMs?: number | undefined },
): void {
  const gap = (field: "deviceGeneration" | "sessionNumber") => ({
    above: above[field],
    upTo: upTo[field],
    ...(reportedAtMs !== undefined && { reportedAtMs }),
  });
  skipValues(tx, "device_generation", gap("deviceGeneration"));
  skipValues(tx, "session_number", gap("sessionNumber"));
}

/** Returns up to `max` hosts that need not register again. */
export function registeredHosts(tables: RegistryTables, max: number): readonly HostId[] {
  const hostIds: HostId[] = [];
  for (const { hostId, mustRegister } of tables.hosts.entries()) {
    if (mustRegister === undefined) hostIds.push(hostId);
    if (hostIds.length === max) break;
  }
  return hostIds;
}

export function requireRegistration(tx: RegistryTransaction, hostIds: readonly HostId[]): void {
  for (const hostId of hostIds) {
    const host = tx.hosts.get(hostId);
    if (host !== undefined && !host.mustRegister) tx.hosts.put({ ...host, mustRegister: true });
  }
}

/** Returns why this registry gives no orders and changes nothing; undefined when it leads. */
export function whyStandsStill(tables: RegistryTables, leader: Leader): string | undefined {
  for (const other of tables.fleets.entries()) {
    if (other.adoptedAtMs !== undefined || other.tabletId !== leader.tabletId) continue;
    return (
      `another registry leads this fleet: the agent of host ${other.hostId} obeys incarnation ${other.incarnation} of tablet ` +
      `${other.tabletId}, and this registry is incarnation ${leader.incarnation}. Stop this registry; or, if the other registry is ` +
      "gone for good, call AdoptFleet as an operator"
    );
  }
  return undefined;
}

/** Records another incarnation. Returns false when it is known already, or the limit is reached. */
export function noteOther(tx: RegistryTransaction, other: OtherFleet, maxOthers: number): boolean {
  const notAdopted = [...tx.fleets.entries()].filter(({ adoptedAtMs }) => adoptedAtMs === undefined);
  if (tx.fleets.get(fleetKey(other)) !== undefined || notAdopted.length >= maxOthers) return false;
  tx.fleets.put(other);
  return true;
}

/**
 * Records an operator's statement that the incarnation is gone for good, so that its agents belong to this registry.
 */
export function adopt(
  tx: RegistryTransaction,
  fleet: Pick<OtherFleet, "tabletId" | "incarnation">,
  nowMs: number,
): void {
  const known = tx.fleets.get(fleetKey(fleet));
  if (known?.adoptedAtMs !== undefined) return;
  const { tabletId, incarnation } = fleet;
  tx.fleets.put({ ...(known ?? { tabletId, incarnation, hostId: "", heardAtMs: nowMs }), adoptedAtMs: nowMs });
}
