import { bytesText, type HostId, InvalidStateError } from "@diskmesh/domain";
import { unlabelled } from "../identity/labels.js";
import { type Device, type Host, isHeld, type RegistryTables, type RegistryTransaction } from "../store/schema.js";
import { defaultSliceBytes, isSliceSize, MAX_SLICE_BYTES, MIN_SLICE_BYTES, sliceCount } from "../store/slices.js";

/** Returns whether a disk, or an erase, has a range of the device's slices, so that their size is settled. */
function isSettled({ runs }: Device): boolean {
  return runs.some(({ count }) => count !== undefined);
}

/** Slice sizes of pools; undefined, or no entry, for the default. */
export type SliceSizes = ReadonlyMap<string, number | undefined>;

/**
 * Returns the device with slices of the wished size, or else of the size that it has, of its pool, or of the default: the
 * first of which it has room for one. A device that is too small for any, or whose size is not known, is a whole.
 */
export function divided(device: Device, wishedBytes: number | undefined, ofPools?: SliceSizes): Device {
  const { sizeBytes, pool } = device;
  if (isSettled(device)) return device;
  const choices = [wishedBytes, device.sliceBytes, ofPools?.get(pool), defaultSliceBytes(sizeBytes)];
  const sliceBytes = choices.find((each) => sliceCount({ sizeBytes, sliceBytes: each }) > 0);
  if (sliceBytes === device.sliceBytes) return device;
  // The label tells the former size.
  return { ...(device.sliceBytes === undefined ? device : unlabelled(device)), sliceBytes };
}

/**
 * Divides a device in operation once its agent knows slices. A device whose agent was replaced by one that knows none is
 * a whole again: `requireSlices` has refused that agent where slices are in use.
 */
export function inSlices(tx: RegistryTransaction, device: Device, knowsSlices: boolean, ofPools?: SliceSizes): Device {
  const divisible = knowsSlices && isHeld(device) ? divided(device, undefined, ofPools) : device;
  const after =
    !knowsSlices && device.sliceBytes !== undefined ? { ...unlabelled(device), sliceBytes: undefined } : divisible;
  if (after !== device) tx.devices.put(after);
  return after;
}

/** Returns why the device does not get slices of that size; undefined when it does. */
export function whyNotDivided(host: Host | undefined, device: Device, sliceBytes: number): string | undefined {
  const { deviceId, sizeBytes } = device;
  const wanted = `slices of ${bytesText(sliceBytes)}`;
  if (!isSliceSize(sliceBytes))
    return `${wanted} are not possible: give a power of two from ${bytesText(MIN_SLICE_BYTES)} to ${bytesText(MAX_SLICE_BYTES)}`;
  if (device.sliceBytes === sliceBytes) return undefined;
  if (host?.slices === undefined)
    return `device ${deviceId} gets no slices: the agent of host ${device.hostId} does not know them; upgrade it`;
  if (isSettled(device))
    return `device ${deviceId} keeps slices of ${bytesText(device.sliceBytes ?? 0)} while disks, or what is left of them, are on it`;
  if (sliceCount({ sizeBytes, sliceBytes }) > 0) return undefined;
  return `device ${deviceId} of ${bytesText(sizeBytes)} has no room for ${wanted}: give a smaller size`;
}

/** Throws for an agent that does not know slices, on a host with ranges of slices in use. */
export function requireSlices(tables: RegistryTables, hostId: HostId): void {
  for (const device of tables.devices.by("byHost", hostId)) {
    if (!isSettled(device)) continue;
    throw new InvalidStateError(
      `the agent of host ${hostId} does not know slices, and disks, or what is left of them, lie on slices of device ${device.deviceId}: upgrade the agent`,
      { about: { host_id: hostId, device_id: device.deviceId } },
    );
  }
}
