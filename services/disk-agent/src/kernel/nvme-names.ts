import { createHash } from "node:crypto";
import type { DeviceId, HostId } from "@diskmesh/domain";

/** Prefix of the NQNs of all subsystems that agents make. Rules of the host know them by it. */
export const NQN_PREFIX = "nqn.2026-11.io.diskmesh:";
/** Names of fleets have these characters of their tablet's hash. */
const FLEET_LENGTH = 12;

/** Subsystem of a session at the host of its devices. */
export interface SubsystemName {
  /** Name of the fleet. */
  readonly fleet: string;
  /** Host of the devices. */
  readonly hostId: HostId;
  readonly sessionNumber: number;
  /** Boot id of that host's machine: a machine that has restarted never serves a former subsystem. */
  readonly machineBootId: string;
}

/** Bytes of a device in a session: a namespace of the session's subsystem. */
export interface NamespaceName extends Omit<SubsystemName, "machineBootId"> {
  readonly deviceId: DeviceId;
  /** Byte of the device at which the holder's part of the run begins. */
  readonly offsetBytes: number;
}

/** Returns the name of the fleet of a tablet. */
export function fleetOf(tabletId: string): string {
  return createHash("sha256").update(tabletId).digest("hex").slice(0, FLEET_LENGTH);
}

export function formatNqn({ fleet, hostId, sessionNumber, machineBootId }: SubsystemName): string {
  return `${NQN_PREFIX}${fleet}:${hostId}:${sessionNumber}:${machineBootId}`;
}

/** Returns what the NQN of a subsystem says; undefined for the NQN of another program. */
export function parseNqn(nqn: string): SubsystemName | undefined {
  if (!nqn.startsWith(NQN_PREFIX)) return undefined;
  const pattern = /^([0-9a-f]{12}):([A-Za-z0-9][A-Za-z0-9_-]*):([1-9]\d{0,15}):([0-9a-f-]{36})$/;
  const [, fleet, hostId = "", session = "", machineBootId = ""] = pattern.exec(nqn.slice(NQN_PREFIX.length)) ?? [];
  if (fleet === undefined) return undefined;
  return { fleet, hostId: hostId as HostId, sessionNumber: Number(session), machineBootId };
}

/** Returns whether an agent has made the subsystem. */
export function isOfMesh(nqn: string): boolean {
  return nqn.startsWith(NQN_PREFIX);
}

/** Returns whether the subsystem is that of the namespace, whatever its machine's boot id. */
export function isSubsystemOf(nqn: string, { fleet, hostId, sessionNumber }: NamespaceName): boolean {
  const found = parseNqn(nqn);
  return found?.fleet === fleet && found.hostId === hostId && found.sessionNumber === sessionNumber;
}

/** Returns whether the subsystem belongs to a machine that has restarted since one of the former ones was made. */
export function isOfRestarted(former: readonly (string | undefined)[], nqn: string | undefined): boolean {
  const { machineBootId, ...now } = (nqn && parseNqn(nqn)) || {};
  return former.some((each) => {
    const { machineBootId: before, ...then } = (each && parseNqn(each)) || {};
    return before !== undefined && before !== machineBootId && JSON.stringify(then) === JSON.stringify(now);
  });
}

/** Identity with which a host connects to the subsystems of others. */
export function initiatorOf(fleet: string, hostId: HostId): { readonly nqn: string; readonly id: string } {
  const nqn = `${NQN_PREFIX}${fleet}:holder:${hostId}`;
  return { nqn, id: uuidOf(hashOf(nqn)) };
}

/** Returns whether the NQN is that with which the host connects, in whatever fleet. */
export function isInitiator(nqn: string, hostId: HostId): boolean {
  return nqn.startsWith(NQN_PREFIX) && nqn.slice(NQN_PREFIX.length + FLEET_LENGTH) === `:holder:${hostId}`;
}

/**
 * Returns the UUID of a namespace of a subsystem. Both hosts know what it consists of. The kernel refuses a UUID that a former
 * subsystem of the session still has.
 */
export function namespaceUuid(nqn: string, name: NamespaceName): string {
  return uuidOf(hashOf(keyOf(nqn, name)));
}

/** Returns the NGUID of a namespace, which says at which byte of the device the namespace begins. */
export function namespaceNguid(nqn: string, name: NamespaceName, startBytes: number): string {
  const bytes = hashOf(keyOf(nqn, name));
  bytes.writeBigUInt64BE(BigInt(startBytes), 0);
  return formatUuid(bytes);
}

/** Returns the first byte of the device in a namespace with this NGUID; undefined when it is the NGUID of another one. */
export function startOfNguid(nqn: string, name: NamespaceName, nguid: string): number | undefined {
  const hex = nguid.replaceAll("-", "");
  if (!/^[0-9a-f]{32}$/.test(hex)) return undefined;
  const startBytes = Number(BigInt(`0x${hex.slice(0, 16)}`));
  if (!Number.isSafeInteger(startBytes)) return undefined;
  return namespaceNguid(nqn, name, startBytes) === formatUuid(Buffer.from(hex, "hex")) ? startBytes : undefined;
}

function keyOf(nqn: string, { deviceId, offsetBytes }: NamespaceName): string {
  return [nqn, deviceId, offsetBytes].join("/");
}

function hashOf(text: string): Buffer {
  return Buffer.from(createHash("sha256").update(text).digest().subarray(0, 16));
}

/** Version 8 is the one of UUIDs whose bits their maker chooses. */
function uuidOf(hash: Buffer): string {
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x80, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  return formatUuid(hash);
}

function formatUuid(bytes: Buffer): string {
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Address of an NVMe/TCP port. The host is an IP address. */
export interface NvmeAddress {
  readonly host: string;
  readonly port: number;
}

/** Queues of a connection. More make a small disk no faster, and each is a socket on both hosts. */
const IO_QUEUES = 4;
const KEEP_ALIVE_S = 5;
const RECONNECT_S = 1;
/** The agent ends a connection, and nobody else: the kernel would remove a disk in use. */
const NEVER = -1;

/** Returns the line of `/dev/nvme-fabrics` that connects to a subsystem. Its I/O fails after `failAfterMs` without a connection. */
export function connectLine(
  { nqn, address }: { readonly nqn: string; readonly address: NvmeAddress },
  initiator: ReturnType<typeof initiatorOf>,
  failAfterMs: number,
): string {
  return Object.entries({
    transport: "tcp",
    traddr: address.host,
    trsvcid: address.port,
    nqn,
    hostnqn: initiator.nqn,
    hostid: initiator.id,
    nr_io_queues: IO_QUEUES,
    keep_alive_tmo: KEEP_ALIVE_S,
    reconnect_delay: RECONNECT_S,
    ctrl_loss_tmo: NEVER,
    fast_io_fail_tmo: Math.max(1, Math.ceil(failAfterMs / 1_000)),
  })
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}
