import type { DeviceId } from "@diskmesh/domain";

/** A device, and what its path names now. */
export interface DevicePlace {
  readonly deviceId: DeviceId;
  readonly path: string;
  readonly offsetBytes: number;
  readonly blockSizeBytes: number;
  /** Recorded label of the device; undefined while none is recorded. */
  readonly labelId: string | undefined;
  /** Label of the drive at the path; undefined for none, and while it is not read. */
  readonly foundLabelId: string | undefined;
  /** The device has the drive at the path open. */
  readonly isInUse: boolean;
}

/**
 * Returns the new paths of the devices that change places: those whose drive is at the path of another device, by
 * label and hardware, and those whose path is taken thereby. `isDriveOf` returns whether the hardware at the second
 * one's path is proven to be the first one's recorded hardware. A label that two paths have, or two devices, moves nobody.
 */
export function planPlaces(
  places: readonly DevicePlace[],
  isDriveOf: (device: DevicePlace, place: DevicePlace) => boolean,
): ReadonlyMap<DeviceId, string> {
  const withLabel = onlyBy(places, ({ foundLabelId }) => foundLabelId);
  const owners = onlyBy(places, ({ labelId }) => labelId);
  /** Devices that follow their drives, by the device in whose place the drive is. */
  const followers = new Map<DevicePlace, DevicePlace>();
  for (const [labelId, device] of owners) {
    const place = withLabel.get(labelId);
    if (device === undefined || place === undefined || place === device || device.isInUse || place.isInUse) continue;
    const isAlike = place.offsetBytes === device.offsetBytes && place.blockSizeBytes === device.blockSizeBytes;
    if (isAlike && isDriveOf(device, place)) followers.set(place, device);
  }
  const following = new Set(followers.values());
  const moves = new Map<DeviceId, string>();
  for (const [place, follower] of followers) {
    moves.set(follower.deviceId, place.path);
    if (following.has(place)) continue;
    // The device in the place follows no drive of its own, and gets the place that is left by the followers.
    let left = follower;
    for (let next = followers.get(left); next !== undefined; next = followers.get(left)) left = next;
    moves.set(place.deviceId, left.path);
  }
  return moves;
}

/** Returns the places by key; undefined for a key of several places. */
function onlyBy(
  places: readonly DevicePlace[],
  keyOf: (place: DevicePlace) => string | undefined,
): ReadonlyMap<string, DevicePlace | undefined> {
  const only = new Map<string, DevicePlace | undefined>();
  for (const place of places) {
    const key = keyOf(place);
    if (key !== undefined) only.set(key, only.has(key) ? undefined : place);
  }
  return only;
}
