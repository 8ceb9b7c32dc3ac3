import type { DeviceId, DiskId, HostId, IoLimits, RunRecord } from "@diskmesh/domain";
import type { RememberedRange } from "../devices/unknown-disks.js";
import type { Registration } from "../hosts/registration.js";
import type { ByteRange } from "../store/slices.js";

/** Holdings of one agent: its own report, what its devices carry, and what it remembers and serves. */
export interface AgentClaims {
  readonly registration: Registration;
  /** Devices that the agent has open. */
  readonly devices: ReadonlyMap<DeviceId, DeviceClaims>;
  readonly served: readonly ServedDisk[];
}

export interface DeviceClaims {
  /** Label that the device carries; absent for none that is whole. */
  readonly label?: CarriedLabel | undefined;
  /** True when the device had a table of runs, and no copy is whole. */
  readonly isTableDamaged: boolean;
  /** Runs of the device's table. */
  readonly claims: readonly RunClaim[];
  /** Sessions that the agent remembers for the device. */
  readonly remembered: readonly RememberedRun[];
  /** Number up to which the agent has forgotten sessions; 0 for none. */
  readonly floor: number;
}

export interface CarriedLabel {
  readonly fleetId: string;
  readonly deviceId: DeviceId;
  readonly labelId: string;
  readonly sizeBytes: number;
  readonly sliceBytes: number;
  readonly offsetBytes: number;
}

/** A run of a device's table, with the record in its first bytes. */
export interface RunClaim extends ByteRange {
  /** Empty when the run has no whole record. */
  readonly diskId: DiskId | "";
  /** Session of the record; 0 without one. */
  readonly sessionNumber: number;
  readonly record?: RunRecord | undefined;
}

export interface RememberedRun extends RememberedRange {
  /** Host that may do I/O; empty for none. */
  readonly holderHostId: HostId | "";
  readonly isErase: boolean;
}

/** A disk that an agent serves, as of the order that it follows. */
export interface ServedDisk {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
  readonly exportPath: string;
  readonly revision: number;
  readonly readOnly: boolean;
  readonly fixedSize: boolean;
  readonly exportKind?: "DEVICE" | "NBD" | undefined;
  readonly limits?: IoLimits | undefined;
  /** Bytes of the disk, in order. */
  readonly extents: readonly ServedExtent[];
}

export interface ServedExtent extends ByteRange {
  readonly deviceId: DeviceId;
  /** Session on the device, when it is not the disk's. */
  readonly sessionNumber?: number | undefined;
}
