import { type IoLimits, MIB_BYTES } from "@diskmesh/domain";
import type { Json, JsonObject } from "./json.js";
import type { Scope } from "./scope.js";

/** The fields of every disk's record, dynamic or persistent. */
export interface DiskRecord {
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  /** The requested size. */
  readonly sizeMib: number;
  /** The size that the disk has. Undefined when the CPI did not tell, or in records of older versions. */
  readonly realSizeBytes?: number | undefined;
  /** The disk type's properties, or the pool of a host's disk, at the first request, kept so that a repeated CPI call gets the same arguments. */
  readonly cloudProperties: JsonObject;
  readonly state: string;
  /** Empty until the disk is known to exist. */
  readonly diskCid: string;
  /**
   * The VM, or the host as `host/ID`, to which the disk is or may be attached; empty when the disk is certainly detached.
   */
  readonly vmCid: string;
  /**
   * The device hint for the VM's agent. Null when detached, or when the CPI returned no hint and stored it in the
   * bosh-registry.
   */
  readonly hint: Json;
}

/** Returns the size that the disk has, as far as it is known. */
export function sizeBytesOf({ realSizeBytes, sizeMib }: Pick<DiskRecord, "realSizeBytes" | "sizeMib">): number {
  return realSizeBytes ?? sizeMib * MIB_BYTES;
}

/** Returns the field of a record for the size that a CPI told; 0 means that it did not. */
export function realSize(sizeBytes: number): Pick<DiskRecord, "realSizeBytes"> {
  return { realSizeBytes: sizeBytes === 0 ? undefined : sizeBytes };
}

/** The instance or host to which a disk is attached. */
export interface Holder {
  /** Empty for a host. */
  readonly instanceId: string;
  /** Undefined for an instance. */
  readonly hostId?: string | undefined;
  /** Unique among all attachments, past and future. */
  readonly attachmentId: string;
  readonly readOnly: boolean;
}

/**
 * The known state of a dynamic disk. creating: create_disk may have been called. detached: the disk exists and is
 * attached to no VM. attaching: attach_disk may have been called. attached: the disk is attached. detaching: the agent
 * may have forgotten the disk, and detach_disk may have been called. deleting: delete_disk may have been called.
 */
export type DiskState = "creating" | "detached" | "attaching" | "attached" | "detaching" | "deleting";

/**
 * A dynamic disk, which orchestrators request by name (seed 002). A disk that was made for a host has no deployment and
 * is attached to hosts only; a disk of a deployment is attached to the deployment's instances only.
 */
export interface Disk extends DiskRecord {
  readonly name: string;
  readonly pool: string;
  readonly state: DiskState;
  /** Recorded before create_disk is called. CPIs with lookup by token find the disk again by this token. */
  readonly token: string;
  /** The instance to whose VM the disk is or may be attached; empty for a host, or when certainly detached. */
  readonly instanceId: string;
  /** The host to which the disk is or may be attached. Undefined for an instance, or when certainly detached. */
  readonly hostId?: string | undefined;
  /**
   * Renewed with each intent to attach. A detached disk keeps the id of its last attachment; empty when never attached.
   */
  readonly attachmentId: string;
  /**
   * The disk's first attachment, and the incarnation of the tablet that created the record: a restore, which may have
   * forgotten attachments, begins another one. The id is empty before the first attachment. Undefined in records of older
   * versions.
   */
  readonly first?: { readonly incarnation: string; readonly attachmentId: string } | undefined;
  /** Time of the first request. Undefined in records of older versions. */
  readonly createdAtMs?: number | undefined;
  /** The scope of the caller that made the disk. Undefined without a scope, and in records of older versions. */
  readonly scope?: Scope | undefined;
  /** The metadata last sent to the infrastructure. */
  readonly metadata: JsonObject;
  /** True when the disk is attached read-only. Absent means false. */
  readonly readOnly?: boolean | undefined;
  /** I/O limits that SetDynamicDiskLimits set last, 0 for none. Undefined: those of the disk type's cloud properties. */
  readonly limits?: IoLimits | undefined;
}
