import type { Json, JsonObject } from "./json.js";

/** What is recorded of every disk, whoever it belongs to. */
export interface DiskRecord {
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  readonly sizeMib: number;
  /** Of its disk type when it was first asked for, so that asking the CPI again asks for the same. */
  readonly cloudProperties: JsonObject;
  readonly state: string;
  /** Empty until it is known to exist. */
  readonly diskCid: string;
  /** Where it is, or may be, attached; empty when it surely is not. */
  readonly vmCid: string;
  /** Where the VM's agent finds it; null when not attached, or when the CPI gave none: the bosh-registry has it then. */
  readonly hint: Json;
}

/** Who a disk is given to. */
export interface Holder {
  readonly instanceId: string;
  /** Tells this attachment from all others, before and after it. */
  readonly attachmentId: string;
}

/**
 * What is known of a dynamic disk.
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
  /** Whose VM it is, or may be, attached to; empty when it surely is attached to none. */
  readonly instanceId: string;
  /** New with each intent to attach it. Of a detached disk that of its last attachment; empty when it never had one. */
  readonly attachmentId: string;
  /** What the infrastructure was last told to remember of it. */
  readonly metadata: JsonObject;
}
