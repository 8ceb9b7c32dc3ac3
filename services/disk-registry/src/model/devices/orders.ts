import type { DeviceId, HostId, Stamp } from "@diskmesh/domain";
import { holdsAnyDisk } from "../store/runs.js";
import { type Device, type Host, isAway, type RegistryTables, type RegistryTransaction } from "../store/schema.js";
import { advance } from "./attach-states.js";
import { forgetDevice } from "./foreign-devices.js";
import { pendingOf, type Waiting } from "./pending.js";
import { type FindSharers, NO_SHARED_SERIAL_NUMBERS, whoHasTheBytes } from "./same-bytes.js";
import { SortedSharers } from "./sorted-sharers.js";

/** Source of stamps: the tablet and its leader's generation. */
export interface Leader {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly tabletGeneration: number;
}

export type OrderKind = "attach" | "detach";

/** Outcome of an order for one device, as its agent reports it. */
export type OutcomeCode =
  | "DONE"
  | "ALREADY"
  | "PENDING"
  | "OUTDATED"
  | "BELOW_FLOOR"
  | "UNKNOWN_DEVICE"
  | "DEVICE_CHANGED"
  | "IO_ERROR"
  | "NOT_ATTACHED";

export interface DeviceOutcome extends Waiting {
  readonly deviceId: string;
  readonly code: OutcomeCode;
  /** Stamp of the answered order; undefined when the agent left it out. */
  readonly stamp: Stamp | undefined;
}

/** All orders that one host awaits. */
export interface HostOrders {
  readonly host: Host;
  readonly attach: readonly Device[];
  readonly detach: readonly Device[];
}

/** Returns the stamp of a device's current order. */
export function stampOf(device: Device, leader: Leader): Stamp {
  return { ...leader, deviceGeneration: device.generation };
}

/** Returns why the host gets no orders now; undefined when it gets them. */
export function whyNotTold(host: Host): string | undefined {
  if (isAway(host)) return host.stateMessage;
  return whyUnheard(host);
}

/**
 * Returns why the host does not get detach orders; undefined when it gets them. A DEAD host whose agent has registered
 * since gets detach orders only.
 */
export function whyNotToldToLetGo(host: Host): string | undefined {
  if (host.state !== "DEAD") return whyNotTold(host);
  return host.mustRegister ? host.stateMessage : undefined;
}

function whyUnheard(host: Host): string | undefined {
  if (host.mustRegister === undefined) return undefined;
  return `host ${host.hostId} gets no orders until its agent has registered again, which the agent does by itself`;
}

/** Returns whether the device's order may be sent to a host that gets at least detach orders. */
export function isToldOf(host: Host, device: Device): boolean {
  return device.attachState !== "ATTACHING" || whyNotTold(host) === undefined;
}

/**
 * Plans the orders of a host: all its devices that await an order and are due. Returns undefined when there are none,
 * or the host cannot be reached.
 */
export function planOrders(
  tables: RegistryTables,
  hostId: HostId,
  options: { readonly maxDevices: number; readonly isDue: (device: Device) => boolean },
): HostOrders | undefined {
  const host = tables.hosts.get(hostId);
  if (host === undefined || whyNotToldToLetGo(host) !== undefined) return undefined;
  const attach: Device[] = [];
  const detach: Device[] = [];
  for (const device of tables.devices.by("awaitingOrderByHost", hostId)) {
    if (!isToldOf(host, device) || !options.isDue(device)) continue;
    (device.attachState === "ATTACHING" ? attach : detach).push(device);
    if (attach.length + detach.length >= options.maxDevices) break;
  }
  return attach.length + detach.length === 0 ? undefined : { host, attach, detach };
}

/** Devices of one answer, by result. */
export interface Settled {
  /** Devices confirmed now. */
  readonly confirmed: readonly DeviceId[];
  /** Devices that were tried and will be retried. */
  readonly unsettled: readonly DeviceId[];
}

/**
 * Returns whether the agent start that answered is still the current one. A late answer of a former start is no
 * evidence of the devices that the new start holds.
 */
export function isOfThisStart(tables: RegistryTables, asked: Host): boolean {
  return tables.hosts.get(asked.hostId)?.bootId === asked.bootId;
}

/**
 * Applies an agent's answer. Only an outcome that names the device and its current stamp counts; an answer to an
 * outdated order changes nothing.
 */
export function applyOutcomes(
  tx: RegistryTransaction,
  kind: OrderKind,
  ordered: readonly Device[],
  outcomes: readonly DeviceOutcome[],
  leader: Leader,
  nowMs: number,
  shared = NO_SHARED_SERIAL_NUMBERS,
): Settled {
  const byDevice = new Map(outcomes.map((outcome) => [outcome.deviceId, outcome]));
  const confirmed: DeviceId[] = [];
  const unsettled: DeviceId[] = [];
  const { find: findSharers } = new SortedSharers(tx, shared);
  for (const sent of ordered) {
    const device = tx.devices.get(sent.deviceId);
    if (device === undefined || device.generation !== sent.generation) continue;
    const outcome = byDevice.get(sent.deviceId);
    const done = settle(tx, kind, device, outcome, { leader, nowMs, findSharers });
    (done ? confirmed : unsettled).push(sent.deviceId);
  }
  return { confirmed, unsettled };
}

function settle(
  tx: RegistryTransaction,
  kind: OrderKind,
  device: Device,
  outcome: DeviceOutcome | undefined,
  { leader, nowMs, findSharers }: { leader: Leader; nowMs: number; findSharers: FindSharers },
): boolean {
  if (outcome === undefined || !sameStamp(outcome.stamp, stampOf(device, leader))) {
    recordFailure(tx, device, `the agent's answer does not name the ${kind} of generation ${device.generation}`, nowMs);
    return false;
  }
  if (outcome.code === "PENDING") {
    const pending = pendingOf(outcome, device.pending, nowMs);
    if (pending !== device.pending) tx.devices.put({ ...device, pending });
    return false;
  }
  const confirmed =
    kind === "attach"
      ? confirmAttach(tx, device, outcome, findSharers, nowMs)
      : confirmDetach(tx, device, outcome, nowMs);
  if (confirmed) return true;
  // Refuses the device instead of retrying the order, because the agent cannot open it while another device in
  // operation lies on its bytes.
  if (kind === "attach" && hasNoRight(device, findSharers)) tx.devices.put(advance(tx, device, "refused", nowMs));
  else recordFailure(tx, device, `${outcome.code}: ${outcome.message}`, nowMs);
  return false;
}

/**
 * Returns whether another device has precedence on the same bytes. AddDevice may have run before that overlap was
 * known.
 */
function hasNoRight(device: Device, findSharers: FindSharers): boolean {
  return (
    device.attachState === "ATTACHING" && !holdsAnyDisk(device) && whoHasTheBytes(findSharers, device) !== undefined
  );
}

function confirmAttach(
  tx: RegistryTransaction,
  device: Device,
  outcome: DeviceOutcome,
  findSharers: FindSharers,
  nowMs: number,
): boolean {
  if (outcome.code !== "DONE" && outcome.code !== "ALREADY") return false;
  // A second confirmation of an ATTACHED device changes nothing.
  if (device.attachState === "ATTACHING") {
    if (hasNoRight(device, findSharers)) tx.devices.put(advance(tx, device, "refused", nowMs));
    else tx.devices.put(settled(advance(tx, device, "attach_confirmed", nowMs)));
  }
  return true;
}

const DETACHED_OUTCOMES: ReadonlySet<OutcomeCode> = new Set(["DONE", "ALREADY", "UNKNOWN_DEVICE", "DEVICE_CHANGED"]);

function confirmDetach(tx: RegistryTransaction, device: Device, outcome: DeviceOutcome, nowMs: number): boolean {
  if (!DETACHED_OUTCOMES.has(outcome.code)) return false;
  if (device.attachState === "UNKNOWN" && outcome.code === "UNKNOWN_DEVICE") {
    forgetDevice(tx, device);
    return true;
  }
  const moved = device.attachState === "CLOSING" ? advance(tx, device, "detach_confirmed", nowMs) : device;
  tx.devices.put({ ...settled(moved), detachConfirmed: true });
  return true;
}

/** Clears the pending state of a completed order. */
function settled({ pending: _, ...device }: Device): Device {
  return { ...device, attempts: 0, lastError: "" };
}

/** Records an order's error on each of its devices that still awaits the same generation. */
export function recordOrderFailure(
  tx: RegistryTransaction,
  ordered: readonly Device[],
  error: string,
  nowMs: number,
): void {
  for (const sent of ordered) {
    const device = tx.devices.get(sent.deviceId);
    if (device !== undefined && device.generation === sent.generation) recordFailure(tx, device, error, nowMs);
  }
}

/** Maximum characters of an error text. The agent chooses the text, and the registry stores it until the next order. */
const MAX_ERROR_LENGTH = 2_048;

function recordFailure(tx: RegistryTransaction, device: Device, error: string, nowMs: number): void {
  const { pending: _, ...same } =
    device.attachState === "ATTACHING" ? advance(tx, device, "attach_failed", nowMs) : device;
  tx.devices.put({ ...same, attempts: device.attempts + 1, lastError: error.slice(0, MAX_ERROR_LENGTH) });
}

function sameStamp(a: Stamp | undefined, b: Stamp): boolean {
  return (
    a !== undefined &&
    a.tabletId === b.tabletId &&
    a.incarnation === b.incarnation &&
    a.tabletGeneration === b.tabletGeneration &&
    a.deviceGeneration === b.deviceGeneration
  );
}
