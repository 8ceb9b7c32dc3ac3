import type { DeviceId } from "@diskmesh/domain";
import { fenceAnew, putPublication, restartPublication } from "../disks/publications.js";
import { withCopies } from "../store/layout.js";
import { disksOn } from "../store/runs.js";
import type { Device, Disk, RegistryTables, RegistryTransaction } from "../store/schema.js";

/**
 * Has all disks of the former device lie on the adopted one. Each gets a new session, so that what the former place
 * granted counts nowhere; a published disk is served again once the adopted device has granted it.
 */
export function moveDisks(tx: RegistryTransaction, former: Device, adopted: Device): void {
  const renamed = (deviceId: DeviceId): DeviceId => (deviceId === former.deviceId ? adopted.deviceId : deviceId);
  for (const disk of disksIn(tx, former)) {
    const copied = withCopies(disk, (copy) => ({ ...copy, deviceId: renamed(copy.deviceId) }));
    const parts = copied.parts.map(({ staysOn, ...part }) => (staysOn ? { ...part, staysOn: renamed(staysOn) } : part));
    const moved: Disk = { ...copied, parts };
    const { publication } = moved;
    if (publication === undefined) fenceAnew(tx, moved, adopted.hostId);
    else if (publication.state === "UNPUBLISHING") putPublication(tx, moved, publication);
    else restartPublication(tx, moved, publication);
  }
}

/** Returns the disks on the device; without those of which the registry knows nothing any more. */
export function disksIn(tables: RegistryTables, device: Device): readonly Disk[] {
  return disksOn([device]).flatMap((diskId) => tables.disks.get(diskId) ?? []);
}
