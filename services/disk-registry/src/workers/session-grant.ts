import type { DeviceOutcome as OutcomeMessage } from "@diskmesh/api/internal";
import { type DeviceId, UnavailableError } from "@diskmesh/domain";
import type { DeviceOutcome, OutcomeCode } from "../model/devices/orders.js";
import { pendingOf, pendingText } from "../model/devices/pending.js";
import type { CoveredRuns, SessionGroup, SessionPlan } from "../model/disks/session-plan.js";
import type { Host, PendingDevice } from "../model/store/schema.js";
import { outcomeOf } from "../requests/wire.js";

/** Addresses at which the holder reaches devices of other hosts. */
type BlockAddresses = ReadonlyMap<DeviceId, string>;

/** Answer of one agent to a session: granted by all its devices, or refused. */
export type Grant = { readonly kind: "granted"; readonly addresses: BlockAddresses } | Refusal;

interface Refusal {
  readonly kind: "refused" | "outdated";
  readonly error: string;
  /** Devices that grant the session once their wait is over. */
  readonly pending: readonly PendingDevice[];
}

/** Thrown when not every device granted the session. */
export class NotGrantedError extends UnavailableError {
  constructor(readonly refusals: readonly Refusal[]) {
    super(refusals.map((refusal) => refusal.error).join("; "));
  }
}

/**
 * Returns the answer of a group's agent. The message of a refusal contains only the first one, but `pending` lists
 * every waiting device.
 */
export function grantOf(
  { hostId }: Pick<Host, "hostId">,
  asked: CoveredRuns,
  messages: readonly OutcomeMessage[],
  nowMs: number,
): Grant {
  const outcomes = outcomesByRun(messages);
  const pending: PendingDevice[] = [];
  let refusal: Refusal | undefined;
  for (const { deviceId, offsetBytes } of runsIn(asked)) {
    const outcome = outcomes.get(runKey(deviceId, offsetBytes));
    if (isGranted(outcome)) continue;
    const waits = outcome?.code === "PENDING" ? pendingOf(outcome, undefined, nowMs) : undefined;
    // One wait says why the device is waited for, however many of its runs wait.
    if (waits !== undefined && pending.every((other) => other.deviceId !== deviceId))
      pending.push({ deviceId, ...waits });
    const message = waits === undefined ? outcome?.message : pendingText(waits, nowMs);
    const said = outcome === undefined ? "the answer does not name the device" : `${outcome.code}: ${message}`;
    const error = `opening the session on device ${deviceId} of host ${hostId}: ${said}`;
    refusal ??= { kind: needsNewSession(outcome?.code) ? "outdated" : "refused", error, pending };
  }
  const addresses = messages.map(({ deviceId, blockAddress }) => [deviceId as DeviceId, blockAddress] as const);
  return refusal ?? { kind: "granted", addresses: new Map(addresses) };
}

/** Returns the devices that have granted the session on all their runs. */
export function grantedOf(asked: CoveredRuns, messages: readonly OutcomeMessage[]): ReadonlySet<string> {
  const outcomes = outcomesByRun(messages);
  const granted = new Set<string>(runsIn(asked).map(({ deviceId }) => deviceId));
  for (const { deviceId, offsetBytes } of runsIn(asked))
    if (!isGranted(outcomes.get(runKey(deviceId, offsetBytes)))) granted.delete(deviceId);
  return granted;
}

/** Returns whether a later session may do what this one may not. */
export function needsNewSession(code: OutcomeCode | undefined): boolean {
  return code === "OUTDATED" || code === "BELOW_FLOOR";
}

function runsIn({ deviceIds, runs }: CoveredRuns): readonly { deviceId: DeviceId; offsetBytes: number }[] {
  return [...deviceIds.map((deviceId) => ({ deviceId, offsetBytes: 0 })), ...runs];
}

function outcomesByRun(messages: readonly OutcomeMessage[]): ReadonlyMap<string, DeviceOutcome> {
  return new Map(messages.map((outcome) => [runKey(outcome.deviceId, outcome.offsetBytes), outcomeOf(outcome)]));
}

const runKey = (deviceId: string, offsetBytes: number): string => `${deviceId} ${offsetBytes}`;

function isGranted(outcome: DeviceOutcome | undefined): boolean {
  return outcome?.code === "DONE" || outcome?.code === "ALREADY";
}

/** Block addresses by device and session. */
export type Reached = ReadonlyMap<string, string>;

export const placeOf = (deviceId: string, sessionNumber: number): string => `${deviceId} ${sessionNumber}`;

/** Returns the addresses of the devices that granted the session of the group. */
export function reachedBy(grant: Grant | undefined, { publication }: SessionPlan, group: SessionGroup): Reached {
  if (grant?.kind !== "granted") return new Map();
  const { sessionNumber = publication.sessionNumber } = group;
  return new Map([...grant.addresses].map(([deviceId, address]) => [placeOf(deviceId, sessionNumber), address]));
}
