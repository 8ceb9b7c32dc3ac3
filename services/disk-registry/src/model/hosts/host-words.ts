import type { DiskId, HostId } from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import { fenceSilent } from "../disks/fences.js";
import { disksOn } from "../store/runs.js";
import {
  type Host,
  isClosed,
  type OperatorsWord,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { disksServedBy } from "./removal-step.js";

/** Operator's override of a host's state: dead, closed to new disks and VMs, in maintenance, or nothing of it any more. */
export type HostWord = "dead" | "cordoned" | "maintenance" | "back";

/** An operator's override; with its end for a maintenance. */
export interface Said extends OperatorsWord {
  readonly untilMs?: number;
}

/** Hosts that an operator's override changes, and their devices and disks. */
export interface Touched {
  /** Hosts whose state changes. */
  readonly hostIds: readonly HostId[];
  /** Number of devices on these hosts. */
  readonly devices: number;
  /**
   * Disks with a device on one of the hosts. They cannot be published before the host is back, or the device is purged.
   */
  readonly heldDiskIds: readonly DiskId[];
  /** Disks published to one of the hosts. */
  readonly servedDiskIds: readonly DiskId[];
  readonly vmCids: readonly string[];
  /** Disks that are fenced off from their host. */
  readonly fencedDiskIds: readonly DiskId[];
}

/**
 * Records an operator's override for all the hosts, or for none. A DEAD host gets no orders. It must register before it
 * counts as heard, and that registration ends its publications.
 */
export function sayOfHosts(
  tx: RegistryTransaction,
  hostIds: readonly HostId[],
  word: HostWord,
  said: Said,
  /** True fences off the disks whose `onHostSilence` is FENCE. */
  fence = false,
): Touched {
  const hosts = hostIds.map((hostId) => requireHost(tx, hostId)).filter((host) => changes(host, word));
  for (const host of hosts) tx.hosts.put(overridden(host, word, said));
  const fenced = fence && word === "dead" ? fenceSilent(tx, hostIds, () => said) : [];
  return { ...touchedBy(tx, hosts), fencedDiskIds: fenced };
}

function changes(host: Host, word: HostWord): boolean {
  if (word === "dead") return host.state !== "DEAD";
  if (word === "maintenance") return true;
  return word === "cordoned" ? host.cordoned === undefined : host.state === "DEAD" || isClosed(host);
}

function overridden(host: Host, word: HostWord, { untilMs = 0, ...said }: Said): Host {
  if (word === "dead") return dead(host, said);
  if (word === "cordoned") return { ...host, cordoned: said };
  if (word === "maintenance") return { ...host, maintenance: { ...said, untilMs } };
  const { cordoned: _, maintenance: __, ...open } = host;
  return host.state === "DEAD" ? back(open, said) : open;
}

function dead(host: Host, said: OperatorsWord): Host {
  const { probationEndsAtMs: _, maintenance: __, ...rest } = host;
  const stateMessage = `host ${host.hostId} was marked DEAD by ${said.by}: ${said.reason}`;
  return { ...rest, state: "DEAD", stateMessage, stateChangedAtMs: said.atMs, saidDead: said, mustRegister: true };
}

/** Returns the host as UNAVAILABLE: its agent must register and pass probation before it is ONLINE. */
function back(host: Host, said: OperatorsWord): Host {
  const { saidDead: _, silentAtListenedMs: __, lossNoted: ___, ...rest } = host;
  const why = said.reason === "" ? "" : ` (${said.reason})`;
  const stateMessage = `host ${host.hostId} is UNAVAILABLE: ${said.by} revoked DEAD${why}, and the host has not registered since`;
  return { ...rest, state: "UNAVAILABLE", stateMessage, stateChangedAtMs: said.atMs, mustRegister: true };
}

function touchedBy(tables: RegistryTables, hosts: readonly Host[]): Omit<Touched, "fencedDiskIds"> {
  const [held, served] = [new Set<DiskId>(), new Set<DiskId>()];
  let devices = 0;
  for (const { hostId } of hosts) {
    devices += tables.devices.count("byHost", hostId);
    for (const diskId of disksOn([...tables.devices.by("usedByHost", hostId)])) held.add(diskId);
    for (const diskId of disksServedBy(tables, hostId)) served.add(diskId);
  }
  return {
    hostIds: hosts.map(({ hostId }) => hostId),
    devices,
    heldDiskIds: [...held].sort(),
    servedDiskIds: [...served].sort(),
    vmCids: hosts.flatMap(({ assignment }) => assignment?.vmCid ?? []),
  };
}
