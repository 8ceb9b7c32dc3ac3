import {
  AlreadyExistsError,
  type DiskId,
  type HostId,
  InvalidStateError,
  NotFoundError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { countingDevices } from "../store/layout.js";
import { type Host, isClosed, type RegistryTables, type RegistryTransaction } from "../store/schema.js";
import { isPlaceable, NOBODY_SUSPECTED, type WhySuspected, whyNotPlaceable } from "./placement.js";
import { type PublicationStep, requestUnpublish, requireDisk, vmOfPublication } from "./publications.js";

export interface HostRequest {
  readonly vmCid: string;
  /** Required az of the host; empty for any. */
  readonly az: string;
  /** Disks that the VM will use. Hosts that hold more bytes of these disks are preferred. */
  readonly diskIds: readonly DiskId[];
}

/** Assigns a free ONLINE host to a VM, or returns the host that the VM already has. */
export function assignHost(
  tx: RegistryTransaction,
  request: HostRequest,
  nowMs: number,
  whySuspected = NOBODY_SUSPECTED,
): Host {
  const { vmCid, az } = request;
  const assigned = hostOfVm(tx, vmCid);
  if (assigned !== undefined) {
    if (az === "" || assigned.az === az) return assigned;
    throw new AlreadyExistsError(
      `VM ${vmCid} already has host ${assigned.hostId} in az ${assigned.az}, not in az ${az}: unassign that host first`,
      {
        about: { vm_cid: vmCid, host_id: assigned.hostId },
      },
    );
  }
  const host = chooseHost(tx, request, whySuspected);
  if (host === undefined) {
    const text = `no host is free for VM ${vmCid}${az === "" ? "" : ` in az ${az}`}: ${whyNoneIsFree(tx, az, nowMs, whySuspected)}`;
    const about = { vm_cid: vmCid };
    throw isOneDueBack(tx, az)
      ? new UnavailableError(text, { about })
      : new ResourceExhaustedError(text, { reason: "NO_HOST_FREE", about });
  }
  const put = { ...host, assignment: { vmCid, assignedAtMs: nowMs } };
  tx.hosts.put(put);
  return put;
}

/** Frees the VM's host; does nothing for an unknown VM. */
export function unassignHost(tx: RegistryTransaction, vmCid: string): void {
  const host = hostOfVm(tx, vmCid);
  if (host === undefined) return;
  const published = [...tx.disks.by("byPublicationHost", host.hostId)]
    .filter(({ publication }) => publication && vmOfPublication(tx, publication) === vmCid)
    .map((disk) => disk.diskId);
  if (published.length > 0) {
    throw new InvalidStateError(
      `VM ${vmCid} has disks published to its host ${host.hostId}: unpublish ${published.join(", ")} first`,
      {
        reason: "DISK_IN_USE",
        about: { vm_cid: vmCid, host_id: host.hostId },
      },
    );
  }
  const { assignment: _, ...unassigned } = host;
  tx.hosts.put(unassigned);
}

/** Returns the VM's host. Throws NotFoundError about the VM. */
export function requireHostOfVm(tables: RegistryTables, vmCid: string): Host {
  const host = hostOfVm(tables, vmCid);
  if (host === undefined) throw new NotFoundError(`there is no VM ${vmCid}`, { about: { vm_cid: vmCid } });
  return host;
}

/**
 * Requests the end of a publication to the VM's host. Throws InvalidStateError about the VM when the disk is published
 * elsewhere.
 */
export function requestUnpublishFromVm(tx: RegistryTransaction, diskId: DiskId, vmCid: string): PublicationStep {
  const { hostId } = requireHostOfVm(tx, vmCid);
  const { publication } = requireDisk(tx, diskId);
  if (publication?.hostId !== hostId || vmOfPublication(tx, publication) !== vmCid)
    throw new InvalidStateError(`disk ${diskId} is not published to host ${hostId} of VM ${vmCid}`, {
      about: { disk_id: diskId, vm_cid: vmCid },
    });
  return requestUnpublish(tx, diskId, hostId);
}

function hostOfVm(tables: RegistryTables, vmCid: string): Host | undefined {
  for (const host of tables.hosts.by("byVm", vmCid)) return host;
  return undefined;
}

function chooseHost(tables: RegistryTables, request: HostRequest, whySuspected: WhySuspected): Host | undefined {
  const heldBytes = bytesByHost(tables, request.diskIds);
  let best: Host | undefined;
  let bestBytes = -1;
  for (const host of hostsIn(tables, request.az)) {
    if (host.assignment !== undefined || !isPlaceable(host, whySuspected)) continue;
    const held = heldBytes.get(host.hostId) ?? 0;
    if (held <= bestBytes) continue;
    best = host;
    bestBytes = held;
  }
  return best;
}

/** Returns whether a free host is away only briefly, e.g. while its agent restarts, so that a retry may get it. */
function isOneDueBack(tables: RegistryTables, az: string): boolean {
  for (const host of hostsIn(tables, az)) {
    const { assignment, removalRequested, state } = host;
    if (assignment === undefined && !removalRequested && !isClosed(host) && state === "ONLINE") return true;
  }
  return false;
}

function hostsIn(tables: RegistryTables, az: string): Iterable<Host> {
  return az === "" ? tables.hosts.entries() : tables.hosts.by("byAz", az);
}

/** Maximum hosts named for each reason; the others are counted. */
const MAX_NAMED = 8;

/** Describes which hosts have VMs, and why the others cannot take a VM now. */
function whyNoneIsFree(tables: RegistryTables, az: string, nowMs: number, whySuspected: WhySuspected): string {
  const taken: string[] = [];
  const unfit: string[] = [];
  for (const host of hostsIn(tables, az)) {
    if (host.assignment !== undefined) taken.push(`${host.hostId} by ${host.assignment.vmCid}`);
    else unfit.push(`${host.hostId} ${whyNotPlaceable(host, whySuspected, nowMs) ?? "is not free"}`);
  }
  if (taken.length + unfit.length === 0) return "there is no host; add hosts";
  const parts: string[] = [];
  if (taken.length > 0) parts.push(`${taken.length} taken (${firstOf(taken)}): delete VMs, or add hosts`);
  if (unfit.length > 0) parts.push(`${unfit.length} that cannot be assigned now (${firstOf(unfit)}): bring them back`);
  return parts.join("; ");
}

function firstOf(named: readonly string[]): string {
  const rest = named.length - MAX_NAMED;
  return `${named.slice(0, MAX_NAMED).join(", ")}${rest > 0 ? `, and ${rest} more` : ""}`;
}

function bytesByHost(tables: RegistryTables, diskIds: readonly DiskId[]): ReadonlyMap<HostId, number> {
  const held = new Map<HostId, number>();
  for (const diskId of diskIds) {
    for (const deviceId of countingDevices(requireDisk(tables, diskId))) {
      const device = tables.devices.get(deviceId);
      if (device !== undefined) held.set(device.hostId, (held.get(device.hostId) ?? 0) + device.sizeBytes);
    }
  }
  return held;
}
