import type { Disk } from "../../store/disk.js";
import { DiskKind } from "../disk-kind.js";

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
  (holder, { first }) => {
    if (holder === undefined) return { instanceId: "", hostId: undefined, readOnly: false };
    const isFirst = first !== undefined && first.attachmentId === "";
    return isFirst ? { ...holder, first: { ...first, attachmentId: holder.attachmentId } } : holder;
  },
);

/** Returns true when the disk certainly was never attached. */
export function wasNeverAttached({ first }: Disk, incarnation: string): boolean {
  return first?.attachmentId === "" && first.incarnation === incarnation;
}

/** Returns true when the present attachment is certainly the disk's first, so that nobody wrote to the disk before it. */
export function isFirstAttachment({ vmCid, attachmentId, first }: Disk, incarnation: string): boolean {
  return vmCid !== "" && first?.attachmentId === attachmentId && first.incarnation === incarnation;
}

/** Returns the path of the disk where it is attached, as the CPI's hint names it; empty when detached. */
export function pathOf({ hint }: Pick<Disk, "hint">): string {
  return typeof hint === "object" && hint !== null && "path" in hint ? String(hint.path) : "";
}

export type DiskIntent = Pick<
  Disk,
  "name" | "deployment" | "az" | "cpi" | "pool" | "sizeMib" | "cloudProperties" | "token" | "scope"
> & { readonly incarnation: string; readonly createdAtMs: number };

/** Returns the disk with a create intent. An earlier intent is kept because a call may have used it. */
export function intendCreateDisk(disk: Disk | undefined, { incarnation, ...intent }: DiskIntent): Disk {
  if (disk !== undefined) return dynamicDisks.moved(disk, "intend_create");
  const nowhere = { instanceId: "", attachmentId: "", vmCid: "", hint: null };
  const first = { incarnation, attachmentId: "" };
  return { ...intent, state: "creating", diskCid: "", ...nowhere, first, metadata: {} };
}
