import type { HostId } from "@diskmesh/domain";
import { type Device, type ForeignDevice, LACKS_DEVICES, type RegistryTransaction } from "../store/schema.js";

const MAX_FOREIGN_DEVICES = 64;

/**
 * Records in the host's document the devices that are refused because their ids belong to other hosts, so that
 * operators see why the host lacks them.
 */
export function noteForeign(tx: RegistryTransaction, hostId: HostId, refused: readonly ForeignDevice[]): void {
  const host = tx.hosts.get(hostId);
  if (host === undefined) return;
  const foreign = refused.slice(0, MAX_FOREIGN_DEVICES);
  const { foreignDevices: known = [], ...rest } = host;
  const isKnown = JSON.stringify(known) === JSON.stringify(foreign);
  if (!isKnown) tx.hosts.put(foreign.length === 0 ? rest : { ...rest, foreignDevices: foreign });
}

/** Deletes a device, which frees its id. Hosts whose devices of that id were refused must register again. */
export function forgetDevice(tx: RegistryTransaction, { deviceId }: Device): void {
  tx.devices.delete(deviceId);
  for (const host of [...tx.hosts.by("byLack", LACKS_DEVICES)]) {
    const { foreignDevices = [], mustRegister } = host;
    // Also selects hosts whose list has reached its maximum length, because a refused device that the list omits may
    // have this id.
    const isMeant =
      foreignDevices.length >= MAX_FOREIGN_DEVICES || foreignDevices.some((each) => each.deviceId === deviceId);
    if (isMeant && !mustRegister) tx.hosts.put({ ...host, mustRegister: true });
  }
}
