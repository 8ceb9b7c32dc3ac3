import { type HostId, InvalidStateError } from "@diskmesh/domain";
import { lastReportedGapAtMs, lastValue, skipValues } from "../devices/counters.js";
import type { Leader } from "../devices/orders.js";
import {
  fleetKey,
  type OtherFleet,
  type RegistryTables,
  type RegistryTransaction,
  type Start,
  schema,
} from "../store/schema.js";

/** Highest numbers given out, or remembered by an agent; 0 when none. */
export interface Numbers {
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly sessionNumber: number;
}

/** An agent's memory of the registry that it obeys. */
export interface Remembered extends Numbers {
  /** Empty when the agent never obeyed a registry. */
  readonly tabletId: string;
  /** Empty when the agent never received an incarnation. */
  readonly incarnation: string;
}

/** Limits on numbers that agents report. */
export interface BelievedNumbers {
  /** A number is believed up to this much above this registry's own. */
  readonly believedAhead: number;
  /** Minimum interval between two raises that only agents' reports cause. */
  readonly raiseIntervalMs: number;
}

/**
 * Registry that an agent obeys. `predecessor` is an incarnation that this one was restored from, or has adopted; the
 * agent changes over when it registers.
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

/** `raise` means that this registry's state is older than a believable number that the agent has seen. */
export type NumbersVerdict =
  | { readonly verdict: "known" }
  | { readonly verdict: "raise" }
  /** Only an operator can decide which registry gave the number. */
  | { readonly verdict: "refuse"; readonly reason: string };

/**
 * Returns the highest numbers that an agent can know before this leader has sent it anything. Numbers that this leader
 * gives later are not among them.
 */
export function numbersAtFirst(own: Numbers): Numbers {
  return { ...own, tabletGeneration: own.tabletGeneration - 1 };
}

/**
 * Returns the highest numbers that an agent can know that obeyed no later generation, and that this leader has sent
 * nothing: those given when the next leader began. Later numbers went to other agents, or came from elsewhere.
 */
export function numbersKnownTo(tables: RegistryTables, atFirst: Numbers, generation: number): Numbers {
  for (const start of tables.starts.entries())
    if (start.tabletGeneration > generation) return { ...start, tabletGeneration: atFirst.tabletGeneration };
  return atFirst;
}

/** Leader starts kept. An agent that obeyed none of them can know the numbers given before the first. */
const MAX_STARTS = 64;

/** Records the numbers that had been given when this leader began. */
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
 * Judges what an agent remembers, given the numbers `own` that it can know. Stamps start again when an agent changes
 * over, so that only its sessions count then.
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
  const said = higher.map((field) => `${NAMES[field]} ${remembered[field]}, and ours is ${own[field]}`).join("; ");
  if (higher.some((field) => remembered[field] > own[field] + believedAhead))
    return {
      verdict: "refuse",
      reason: `${said}: no agent's word alone is believed for more than ${believedAhead} above`,
    };
  const lastAtMs = lastReportedGapAtMs(tables);
  // The check nowMs >= lastAtMs prevents an endless wait after the clock was set back.
  if (lastAtMs !== undefined && nowMs >= lastAtMs && nowMs - lastAtMs < raiseIntervalMs)
    return {
      verdict: "refuse",
      reason: `${said}: an agent's word was believed ${Math.round((nowMs - lastAtMs) / 1_000)} s ago, and is again after ${raiseIntervalMs / 1_000} s`,
    };
  return { verdict: "raise" };
}

export function refusedNumbers(hostId: HostId, reason: string): Error {
  return new InvalidStateError(
    `the agent of host ${hostId} remembers ${reason}. If the registry's store was copied back, or these numbers were truly ` +
      "given, let an operator say so with RaiseNumbers; if not, remove the agent's cache file",
    { about: { host_id: hostId } },
  );
}

/**
 * Returns the numbers above every number that an agent is believed, so that one agent's report covers those of the
 * others.
 */
export function raisedAbove(own: Numbers, believedAhead: number): Numbers {
  return {
    tabletGeneration: own.tabletGeneration + believedAhead,
    deviceGeneration: own.deviceGeneration + believedAhead,
    sessionNumber: own.sessionNumber + believedAhead,
  };
}

/**
 * Raises the counters; the tablet's generation is claimed beforehand. `above` are numbers that were certainly given
 * only here.
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
      `${other.tabletId}, and this registry is incarnation ${leader.incarnation}. Stop this registry; or, if the other one is ` +
      "gone for good, let an operator say so with AdoptFleet"
    );
  }
  return undefined;
}

/** Records another incarnation. Returns false when it is known, or the limit is reached. */
export function noteOther(tx: RegistryTransaction, other: OtherFleet, maxOthers: number): boolean {
  const notAdopted = [...tx.fleets.entries()].filter(({ adoptedAtMs }) => adoptedAtMs === undefined);
  if (tx.fleets.get(fleetKey(other)) !== undefined || notAdopted.length >= maxOthers) return false;
  tx.fleets.put(other);
  return true;
}

/** Records an operator's word that the incarnation is gone for good, so that its agents belong to this registry. */
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
