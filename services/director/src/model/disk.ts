import { InvalidStateError } from "@diskmesh/domain";
import type { Target } from "./instance.js";
import type { Json, JsonObject } from "./json.js";

/**
 * What is known of a dynamic disk.
 * creating: create_disk may have been called. detached: it exists, attached to nothing. attaching: attach_disk may have
 * been called. attached: it is. detaching: the agent may have forgotten it, detach_disk may have been called.
 * deleting: delete_disk may have been called.
 */
export type DiskState = "creating" | "detached" | "attaching" | "attached" | "detaching" | "deleting";

/** A disk that orchestrators ask for by name (seed 002). */
export interface Disk {
  readonly name: string;
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  readonly pool: string;
  readonly sizeMib: number;
  /** Of its disk type when it was first asked for, so that asking the CPI again asks for the same. */
  readonly cloudProperties: JsonObject;
  readonly state: DiskState;
  /** The intent to make it, recorded before the call that makes it; CPIs that can, find the disk again by it. */
  readonly token: string;
  /** Empty until it is known to exist. */
  readonly diskCid: string;
  /** Where it is, or may be, attached; empty when it surely is not. */
  readonly instanceId: string;
  readonly vmCid: string;
  /** Where the VM's agent finds it; null when not attached, or when the CPI gave none. */
  readonly hint: Json;
  /** What the infrastructure was last told to remember of it. */
  readonly metadata: JsonObject;
}

type DiskEvent =
  | "intend_create"
  | "create"
  | "intend_attach"
  | "attach"
  | "fail_attach"
  | "intend_detach"
  | "detach"
  | "intend_delete";

const TRANSITIONS: Readonly<Record<DiskEvent, Partial<Record<DiskState, DiskState>>>> = {
  intend_create: { creating: "creating" },
  create: { creating: "detached" },
  intend_attach: { detached: "attaching", attaching: "attaching", detaching: "attaching" },
  attach: { attaching: "attached" },
  fail_attach: { attaching: "detached" },
  intend_detach: { attaching: "detaching", attached: "detaching", detaching: "detaching" },
  detach: { detaching: "detached" },
  intend_delete: { detached: "deleting", deleting: "deleting" },
};

function moved(disk: Disk, event: DiskEvent): Disk {
  const state = TRANSITIONS[event][disk.state];
  if (state === undefined) {
    throw new InvalidStateError(`disk \`${disk.name}\` is ${disk.state}: it cannot ${event.replace("_", " ")}`, {
      about: { disk_name: disk.name },
    });
  }
  return { ...disk, state };
}

export type DiskIntent = Pick<
  Disk,
  "name" | "deployment" | "az" | "cpi" | "pool" | "sizeMib" | "cloudProperties" | "token"
>;

/** Keeps the intent that was recorded first, if any: it may have been acted on. */
export function intendCreateDisk(disk: Disk | undefined, intent: DiskIntent): Disk {
  if (disk !== undefined) return moved(disk, "intend_create");
  return { ...intent, state: "creating", diskCid: "", instanceId: "", vmCid: "", hint: null, metadata: {} };
}

export function diskCreated(disk: Disk, made: { readonly diskCid: string; readonly cpi: string }): Disk {
  return { ...moved(disk, "create"), ...made };
}

export function intendAttachDisk(disk: Disk, target: Target): Disk {
  return { ...moved(disk, "intend_attach"), instanceId: target.instanceId, vmCid: target.vmCid, hint: null };
}

export function diskAttached(disk: Disk, hint: Json): Disk {
  return { ...moved(disk, "attach"), hint };
}

/** attach_disk is known to have attached nothing. */
export function diskNotAttached(disk: Disk): Disk {
  return { ...moved(disk, "fail_attach"), instanceId: "", vmCid: "", hint: null };
}

export function intendDetachDisk(disk: Disk): Disk {
  return moved(disk, "intend_detach");
}

export function diskDetached(disk: Disk): Disk {
  return { ...moved(disk, "detach"), instanceId: "", vmCid: "", hint: null };
}

export function intendDeleteDisk(disk: Disk): Disk {
  return moved(disk, "intend_delete");
}
