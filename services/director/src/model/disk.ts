import { DiskKind, type DiskRecord } from "./disk-kind.js";
import type { JsonObject } from "./json.js";

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

export const dynamicDisks = new DiskKind<Disk, "intend_delete">(
  {
    intend_create: { creating: "creating" },
    create: { creating: "detached" },
    intend_attach: { detached: "attaching", attaching: "attaching", detaching: "attaching" },
    attach: { attaching: "attached" },
    fail_attach: { attaching: "detached" },
    intend_detach: { attaching: "detaching", attached: "detaching", detaching: "detaching" },
    detach: { detaching: "detached" },
    intend_delete: { detached: "deleting", deleting: "deleting" },
  },
  ({ name }) => ({ shown: `disk \`${name}\``, about: { disk_name: name } }),
  (holder) => holder ?? { instanceId: "" },
);

export type DiskIntent = Pick<
  Disk,
  "name" | "deployment" | "az" | "cpi" | "pool" | "sizeMib" | "cloudProperties" | "token"
>;

/** Keeps the intent that was recorded first, if any: it may have been acted on. */
export function intendCreateDisk(disk: Disk | undefined, intent: DiskIntent): Disk {
  if (disk !== undefined) return dynamicDisks.moved(disk, "intend_create");
  const nowhere = { instanceId: "", attachmentId: "", vmCid: "", hint: null };
  return { ...intent, state: "creating", diskCid: "", ...nowhere, metadata: {} };
}
