import type { Json, JsonObject } from "./json.js";

/** The fields of every disk's record, dynamic or persistent. */
export interface DiskRecord {
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  readonly sizeMib: number;
  /** The disk type's properties at the first request, so that a repeated CPI call asks for the same. */
  readonly cloudProperties: JsonObject;
  readonly state: string;
  /** Empty until it is known to exist. */
  readonly diskCid: string;
  /** Where it is, or may be, attached; empty when it surely is not. */
  readonly vmCid: string;
  /** Where the VM's agent finds it; null when not attached, or when the CPI gave none: the bosh-registry has it then. */
  readonly hint: Json;
}

/** The instance that gets a disk. */
export interface Holder {
  readonly instanceId: string;
  /** Tells this attachment from all others, before and after it. */
  readonly attachmentId: string;
}

/**
 * The known state of a dynamic disk.
 * creating: create_disk may have been called. detached: it exists, attached to nothing. attaching: attach_disk may have
 * been called. attached: it is. detaching: the agent may have forgotten it, detach_disk may have been called.
 * deleting: delete_disk may have been called.
 */
export type DiskState = "creating" | "detached" | "attaching" | "attached" | "detaching" | "deleting";

/** A disk that orchestrators ask for by name (seed 002). */
export interface Disk extends DiskRecord {
  readonly name: string;
  readonly pool: string;
  readonly state: DiskState;
  /** The intent to make it, recorded before the call that makes it; CPIs that can, find the disk again by it. */
  readonly token: string;
  /** The instance whose VM the disk is, or may be, attached to; empty when it surely is attached to none. */
  readonly instanceId: string;
  /** New with each intent to attach it. Of a detached disk that of its last attachment; empty when it never had one. */
  readonly attachmentId: string;
  /** The metadata that the infrastructure got last. */
  readonly metadata: JsonObject;
}
