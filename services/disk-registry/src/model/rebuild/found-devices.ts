import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { ReportedDevice } from "../devices/reported-devices.js";
import { type ByteRange, headBytes, isSliceSize, sliceCount } from "../store/slices.js";
import type { AgentClaims, CarriedLabel, DeviceClaims, RememberedRun, RunClaim } from "./claims.js";

/** A device of the fleet, known by its label. */
export interface FoundDevice {
  readonly hostId: HostId;
  readonly az: string;
  readonly reported: ReportedDevice;
  readonly label: CarriedLabel;
  readonly carried: DeviceClaims;
  readonly runs: readonly FoundRun[];
}

/** A run of slices that a device's table has. */
export interface FoundRun extends RunClaim {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly az: string;
  readonly first: number;
  readonly count: number;
  /** Highest session of the run's disk that its record, or its agent, remembers. */
  readonly lastSessionNumber: number;
  /** Host that may do I/O in that session; empty for none, or when it is not remembered. */
  readonly holderHostId: HostId | "";
  /** Disk that the agent remembers on bytes of the run, in a later session; empty for none. */
  readonly takenBy: DiskId | "";
  /** True when a later erase of bytes of the run was begun. */
  readonly isErased: boolean;
}

/** Reason why a device is not taken over, so that its host registers it as an unknown one. */
export interface LeftDevice {
  readonly hostId: HostId;
  readonly deviceId: DeviceId;
  readonly reason: string;
}

/** Returns the devices whose label and hardware agree, and those that are left. */
export function findDevices(
  agents: readonly AgentClaims[],
  fleetId: string,
): { readonly found: readonly FoundDevice[]; readonly left: readonly LeftDevice[] } {
  const places = placesOf(agents);
  const found: FoundDevice[] = [];
  const left: LeftDevice[] = [];
  for (const { registration, devices } of agents)
    for (const reported of registration.devices) {
      const { hostId, az } = registration;
      const { deviceId } = reported;
      const carried = devices.get(deviceId);
      const known = { reported, carried, fleetId, places };
      const reason = whyLeft(known);
      if (reason === undefined && carried?.label !== undefined) {
        const { label } = carried;
        const runs = carried.claims.flatMap((claim) => foundRun({ hostId, az, deviceId, label, carried, claim }) ?? []);
        found.push({ hostId, az, reported, label, carried, runs });
      } else left.push({ hostId, deviceId, reason: reason ?? "" });
    }
  return { found, left };
}

interface Places {
  /** Hosts by device. */
  readonly ofDevices: ReadonlyMap<string, readonly HostId[]>;
  /** Devices by label. */
  readonly ofLabels: ReadonlyMap<string, readonly DeviceId[]>;
}

function placesOf(agents: readonly AgentClaims[]): Places {
  const ofDevices = new Map<string, HostId[]>();
  const ofLabels = new Map<string, DeviceId[]>();
  for (const { registration, devices } of agents) {
    for (const { deviceId } of registration.devices)
      ofDevices.set(deviceId, [...(ofDevices.get(deviceId) ?? []), registration.hostId]);
    for (const [deviceId, { label }] of devices)
      if (label !== undefined) ofLabels.set(label.labelId, [...(ofLabels.get(label.labelId) ?? []), deviceId]);
  }
  return { ofDevices, ofLabels };
}

function whyLeft({
  reported,
  carried,
  fleetId,
  places,
}: {
  readonly reported: ReportedDevice;
  readonly carried: DeviceClaims | undefined;
  readonly fleetId: string;
  readonly places: Places;
}): string | undefined {
  const { deviceId, sizeBytes, offsetBytes } = reported;
  const hosts = places.ofDevices.get(deviceId) ?? [];
  if (hosts.length > 1) return `hosts ${hosts.join(" and ")} have a device of this id`;
  if (!reported.attached || carried === undefined)
    return reported.healthMessage === ""
      ? "its agent does not hold it"
      : `its agent cannot read it: ${reported.healthMessage}`;
  const { label } = carried;
  if (label === undefined) return "it carries no label";
  if (label.fleetId !== fleetId) return `it carries a label of fleet ${label.fleetId}`;
  const others = places.ofLabels.get(label.labelId) ?? [];
  if (others.length > 1) return `devices ${others.join(" and ")} carry the same label`;
  // An adopted drive keeps the label that names its former place, which is not there.
  if (label.deviceId !== deviceId && places.ofDevices.has(label.deviceId))
    return `it carries the label of device ${label.deviceId}`;
  if (label.offsetBytes !== offsetBytes || label.sizeBytes > sizeBytes)
    return `its label is of ${label.sizeBytes} bytes from byte ${label.offsetBytes}, and it has ${sizeBytes} from byte ${offsetBytes}`;
  if (!isSliceSize(label.sliceBytes) || sliceCount(label) === 0) return "its label has an impossible size of slices";
  return carried.isTableDamaged ? "its table of runs is damaged" : undefined;
}

/** Returns the run on the device's slices; undefined for bytes that no run can have. */
function foundRun(place: {
  readonly hostId: HostId;
  readonly az: string;
  readonly deviceId: DeviceId;
  readonly label: CarriedLabel;
  readonly carried: DeviceClaims;
  readonly claim: RunClaim;
}): FoundRun | undefined {
  const { hostId, az, deviceId, label, carried, claim } = place;
  const { sliceBytes } = label;
  const first = (claim.offsetBytes - headBytes(sliceBytes)) / sliceBytes;
  const count = claim.sizeBytes / sliceBytes;
  const isOnSlices = Number.isInteger(first) && Number.isInteger(count) && first >= 0 && count > 0;
  if (!isOnSlices || first + count > sliceCount(label)) return undefined;
  const there = carried.remembered.filter((range) => overlaps(range, claim));
  const own = there.filter(({ diskId }) => diskId !== "" && diskId === claim.diskId);
  const last = own.reduce((best: RememberedRun | undefined, each) => later(best, each), undefined);
  const lastSessionNumber = Math.max(claim.sessionNumber, last?.sessionNumber ?? 0);
  const after = there.filter(({ sessionNumber }) => sessionNumber > lastSessionNumber);
  return {
    ...claim,
    ...{ hostId, az, deviceId, first, count, lastSessionNumber },
    holderHostId: last?.sessionNumber === lastSessionNumber ? last.holderHostId : "",
    takenBy: after.find(({ diskId }) => diskId !== "" && diskId !== claim.diskId)?.diskId ?? "",
    isErased: after.some(({ isErase }) => isErase),
  };
}

const later = (one: RememberedRun | undefined, other: RememberedRun): RememberedRun =>
  one !== undefined && one.sessionNumber >= other.sessionNumber ? one : other;

function overlaps(a: ByteRange, b: ByteRange): boolean {
  return a.offsetBytes < b.offsetBytes + b.sizeBytes && b.offsetBytes < a.offsetBytes + a.sizeBytes;
}

export function isWithin(inner: ByteRange, outer: ByteRange): boolean {
  const endOf = ({ offsetBytes, sizeBytes }: ByteRange): number => offsetBytes + sizeBytes;
  return inner.offsetBytes >= outer.offsetBytes && endOf(inner) <= endOf(outer);
}
