import type { DeviceOutcome as OutcomeMessage } from "@diskmesh/api/internal";
import { type DeviceId, UnavailableError } from "@diskmesh/domain";
import type { DeviceOutcome } from "../model/devices/orders.js";
import { pendingOf, pendingText } from "../model/devices/pending.js";
import type { SessionGroup } from "../model/disks/session-plan.js";
import type { PendingDevice } from "../model/store/schema.js";
import { outcomeOf } from "../requests/wire.js";

/** Addresses at which the holder reaches devices of other hosts. */
export type BlockAddresses = ReadonlyMap<DeviceId, string>;

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
export function grantOf({ host, deviceIds }: SessionGroup, messages: readonly OutcomeMessage[], nowMs: number): Grant {
  const outcomes = new Map(messages.map((outcome) => [outcome.deviceId, outcomeOf(outcome)]));
  const pending: PendingDevice[] = [];
  let refusal: Refusal | undefined;
  for (const deviceId of deviceIds) {
    const outcome = outcomes.get(deviceId);
    if (isGranted(outcome)) continue;
    const waits = outcome?.code === "PENDING" ? pendingOf(outcome, undefined, nowMs) : undefined;
    if (waits !== undefined) pending.push({ deviceId, ...waits });
    const message = waits === undefined ? outcome?.message : pendingText(waits, nowMs);
    const said = outcome === undefined ? "the answer does not name the device" : `${outcome.code}: ${message}`;
    const error = `opening the session on device ${deviceId} of host ${host.hostId}: ${said}`;
    refusal ??= { kind: outcome?.code === "OUTDATED" ? "outdated" : "refused", error, pending };
  }
  const addresses = messages.map(({ deviceId, blockAddress }) => [deviceId as DeviceId, blockAddress] as const);
  return refusal ?? { kind: "granted", addresses: new Map(addresses) };
}

/** Returns the devices that have granted the session. */
export function grantedOf(messages: readonly OutcomeMessage[]): ReadonlySet<string> {
  const granted = messages.map(outcomeOf).filter(isGranted);
  return new Set(granted.map(({ deviceId }) => deviceId));
}

function isGranted(outcome: DeviceOutcome | undefined): boolean {
  return outcome?.code === "DONE" || outcome?.code === "ALREADY";
}
