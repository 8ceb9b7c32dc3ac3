import type { DiskId, HostId } from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import { fenceSilent } from "../disks/fences.js";
import type { Host, OperatorsWord, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { disksOn, disksServedBy } from "./remove-action.js";

/** What an operator can say of a host: that it is dead, or that it is not, after all. */
export type HostWord = "dead" | "back";

/** What hosts that an operator speaks of have to do with. */
export interface Touched {
  /** Whose state the word changes. */
  readonly hostIds: readonly HostId[];
  /** How many they have. */
  readonly devices: number;
  /** Disks with a device on one of them: nobody can publish these before the host is back, or the device is purged. */
  readonly heldDiskIds: readonly DiskId[];
  /** Disks that are published to one of them. */
  readonly servedDiskIds: readonly DiskId[];
  readonly vmCids: readonly string[];
  /** Those that it takes from their host. */
  readonly fencedDiskIds: readonly DiskId[];
}

/**
 * Notes an operator's word on all those hosts, or on none. DEAD hosts are told nothing, and register before they count as
 * heard: that ends what they serve.
 */
export function sayOfHosts(
  tx: RegistryTransaction,
  hostIds: readonly HostId[],
  word: HostWord,
  said: OperatorsWord,
  /** Disks that are to be taken from a silent host are taken from these. */
  fence = false,
): Touched {
  const hosts = hostIds.map((hostId) => requireHost(tx, hostId)).filter((host) => changes(host, word));
  for (const host of hosts) tx.hosts.put(word === "dead" ? dead(host, said) : back(host, said));
  const fenced = fence && word === "dead" ? fenceSilent(tx, hostIds, () => said) : [];
  return { ...touchedBy(tx, hosts), fencedDiskIds: fenced };
}

function changes({ state }: Host, word: HostWord): boolean {
  return (state === "DEAD") === (word === "back");
}

function dead(host: Host, said: OperatorsWord): Host {
  const { probationEndsAtMs: _, ...rest } = host;
  const stateMessage = `host ${host.hostId} is DEAD by the word of ${said.by}: ${said.reason}`;
  return { ...rest, state: "DEAD", stateMessage, stateChangedAtMs: said.atMs, saidDead: said, mustRegister: true };
}

/** As a host that was silent: its agent registers, and then proves itself. */
function back(host: Host, said: OperatorsWord): Host {
  const { saidDead: _, silentAtListenedMs: __, ...rest } = host;
  const why = said.reason === "" ? "" : ` (${said.reason})`;
  const stateMessage = `host ${host.hostId} is UNAVAILABLE: ${said.by} took back that it is DEAD${why}, and it has not registered since`;
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
