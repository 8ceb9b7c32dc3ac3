import { InvalidStateError } from "@diskmesh/domain";
import { type CloudConfig, diskTypeNamed } from "../../specs/cloud-config.js";
import type { GroupSpec } from "../../specs/instance-group.js";
import type { Instance } from "../../store/instance.js";
import { type JsonObject, sameJson } from "../../store/json.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import { DiskKind } from "../disk-kind.js";

export const persistentDisks = new DiskKind<PersistentDisk, "mount" | "change" | "orphan" | "adopt">(
  {
    intend_create: { creating: "creating" },
    create: { creating: "detached" },
    intend_attach: { detached: "attaching", attaching: "attaching" },
    attach: { attaching: "attached" },
    fail_attach: { attaching: "detached" },
    mount: { attached: "mounted" },
    intend_detach: { attaching: "detaching", attached: "detaching", mounted: "detaching", detaching: "detaching" },
    detach: { detaching: "detached" },
    // Changing, orphaning and adopting need a detached disk, because an attached disk may be in use.
    change: { detached: "detached" },
    orphan: { detached: "detached" },
    adopt: { detached: "detached" },
  },
  ({ diskId, diskCid }) => ({ shown: `persistent disk \`${diskCid || diskId}\``, about: { disk_cid: diskCid } }),
  // A persistent disk belongs to its instance even while it is detached, so attach and detach record no holder.
  () => ({}),
);

/** Returns the disk with a create intent. An earlier intent is kept because a call may have used it. */
export function intendPersistentDisk(
  disk: PersistentDisk | undefined,
  diskId: string,
  { deployment, group, instanceId, az, cpi }: Instance,
  wanted: WantedPersistentDisk | undefined,
): PersistentDisk {
  if (disk !== undefined) return persistentDisks.moved(disk, "intend_create");
  if (wanted === undefined) throw new TypeError("the plan creates a persistent disk that the manifest does not name");
  const { sizeMib, cloudProperties } = wanted;
  const place = { deployment, group, instanceId, az, cpi, vmCid: "", hint: null, orphanedAtMs: null };
  return { diskId, ...place, sizeMib, cloudProperties, state: "creating", diskCid: "" };
}

/** Returns the disk after a change by the CPI, which may have changed the CID. */
export function persistentDiskChanged(
  disk: PersistentDisk,
  {
    sizeMib,
    cloudProperties,
    diskCid,
    realSizeBytes,
  }: WantedPersistentDisk & Pick<PersistentDisk, "diskCid" | "realSizeBytes">,
): PersistentDisk {
  return { ...persistentDisks.moved(disk, "change"), sizeMib, realSizeBytes, cloudProperties, diskCid };
}

/** Returns the disk as an orphan, which is kept until an operator deletes it. */
export function persistentDiskOrphaned(disk: PersistentDisk, nowMs: number): PersistentDisk {
  const { role, ...orphan } = persistentDisks.moved(disk, "orphan");
  return { ...orphan, orphanedAtMs: nowMs };
}

export interface WantedPersistentDisk {
  readonly sizeMib: number;
  readonly cloudProperties: JsonObject;
}

/** Returns the disk that the manifest wants for each instance of the group; undefined for none. */
export function wantedPersistentDisk(group: GroupSpec, config: CloudConfig): WantedPersistentDisk | undefined {
  const { persistentDisk: wanted } = group;
  if (wanted === undefined) return undefined;
  if (wanted.type === "") return wanted.sizeMib === 0 ? undefined : { sizeMib: wanted.sizeMib, cloudProperties: {} };
  const { sizeMib, cloudProperties } = diskTypeNamed(config, wanted.type);
  return { sizeMib, cloudProperties };
}

/** The steps on the second disk during a copy. */
const COPY_STEPS = ["create_next", "attach_next", "migrate", "detach_other", "delete_next", "orphan_former"] as const;
export type CopyStep = (typeof COPY_STEPS)[number];

export function isCopyStep(step: PersistentDiskStep): step is CopyStep {
  return COPY_STEPS.some((each) => each === step);
}

export type PersistentDiskStep = "create" | "attach" | "mount" | "detach" | "change" | "orphan" | "nothing" | CopyStep;

/**
 * Returns the next step towards the wanted disk of an instance with a running VM. `other` is the instance's second disk
 * during a copy: the copy's target (role `next`) or former source (role `former`).
 */
export function decidePersistentDisk(
  disk: PersistentDisk | undefined,
  wanted: WantedPersistentDisk | undefined,
  other?: PersistentDisk | undefined,
): PersistentDiskStep {
  const step = other && decideCopy(disk, wanted, other);
  if (step !== undefined) return step;
  if (disk === undefined) return wanted === undefined ? "nothing" : "create";
  // A disk without a CID cannot even be deleted, so its creation is finished first.
  if (disk.state === "creating") return "create";
  if (disk.state === "detaching") return "detach";
  if (wanted === undefined) return disk.state === "detached" ? "orphan" : "detach";
  refuseShrinking(disk, wanted);
  // During a copy the instance's own disk is the source, so it stays mounted although it differs from the wanted disk.
  if (other === undefined && !isAs(disk, wanted)) return disk.state === "detached" ? "change" : "detach";
  switch (disk.state) {
    case "detached":
    case "attaching":
      return "attach";
    case "attached":
      return "mount";
    default:
      return "nothing";
  }
}

/** Returns the next step of a copy; undefined while the instance's own disk needs a step first. */
function decideCopy(
  disk: PersistentDisk | undefined,
  wanted: WantedPersistentDisk | undefined,
  other: PersistentDisk,
): CopyStep | undefined {
  if (other.state === "detaching") return "detach_other";
  if (other.role === "former") return other.state === "detached" ? "orphan_former" : "detach_other";
  const isOfUse = disk !== undefined && wanted !== undefined && !isAs(disk, wanted) && isAs(other, wanted);
  if (isOfUse && disk.state !== "mounted") return undefined;
  // A disk without a CID cannot even be deleted, so its creation is finished first.
  if (other.state === "creating") return "create_next";
  if (!isOfUse) return other.state === "detached" ? "delete_next" : "detach_other";
  return other.state === "attached" ? "migrate" : "attach_next";
}

function isAs(disk: PersistentDisk, wanted: WantedPersistentDisk): boolean {
  return disk.sizeMib === wanted.sizeMib && sameJson(disk.cloudProperties, wanted.cloudProperties);
}

/** Returns the record of a new disk for a copy. */
export function intendCopy(
  { deployment, group, instanceId, az, cpi }: Instance,
  diskId: string,
  { sizeMib, cloudProperties }: WantedPersistentDisk,
): PersistentDisk {
  const place = { deployment, group, instanceId, az, cpi, vmCid: "", hint: null, orphanedAtMs: null };
  return { diskId, ...place, sizeMib, cloudProperties, state: "creating", diskCid: "", role: "next" };
}

/** Returns both disks with swapped roles after the agent copied the data and mounted the new disk. */
export function copied(
  disk: PersistentDisk,
  next: PersistentDisk,
): { readonly former: PersistentDisk; readonly present: PersistentDisk } {
  const { role, ...present } = persistentDisks.moved(next, "mount");
  return { former: { ...disk, role: "former" }, present };
}

function refuseShrinking(disk: PersistentDisk, wanted: WantedPersistentDisk): void {
  if (wanted.sizeMib >= disk.sizeMib) return;
  throw new InvalidStateError(
    `the persistent disk of ${disk.group}/${disk.instanceId} has ${disk.sizeMib} MiB and cannot shrink to ${wanted.sizeMib} MiB: keep its size, or remove the disk first, which orphans it`,
    { about: { disk_cid: disk.diskCid } },
  );
}

/** Returns an orphan as the disk of an instance. */
export function persistentDiskAdopted(
  disk: PersistentDisk,
  { deployment, group, instanceId }: Pick<Instance, "deployment" | "group" | "instanceId">,
): PersistentDisk {
  return { ...persistentDisks.moved(disk, "adopt"), deployment, group, instanceId, orphanedAtMs: null };
}

/**
 * Returns an orphan's record of a disk that the director never knew, in the place of the instance that gets the disk.
 * Its size is unknown. As in BOSH, 1 MiB stands for it, so that the next deploy resizes the disk to what the manifest
 * wants.
 */
export function unknownDisk(
  { deployment, group, instanceId, az, cpi }: Instance,
  diskId: string,
  diskCid: string,
): PersistentDisk {
  const place = { deployment, group, instanceId, az, cpi, vmCid: "", hint: null, orphanedAtMs: 0 };
  return { diskId, ...place, sizeMib: 1, cloudProperties: {}, state: "detached", diskCid };
}

/** Returns the next step that gives an instance the disk in place of its current disk. */
export function decideAdoption(
  disk: PersistentDisk,
  current: PersistentDisk | undefined,
  { vmState, group, instanceId }: Pick<Instance, "vmState" | "group" | "instanceId">,
): "detach" | "adopt" | "attach" | "mount" | "nothing" {
  if (current !== undefined && current.diskId !== disk.diskId) {
    if (current.state === "creating")
      throw new InvalidStateError(
        `the disk of ${group}/${instanceId} is being created: deploy again to finish the creation first`,
      );
    return current.state === "detached" ? "adopt" : "detach";
  }
  if (disk.orphanedAtMs !== null) return "adopt";
  if (disk.state === "detaching") return "detach";
  // Without a running VM, the next deploy attaches the disk.
  if (vmState !== "running") return "nothing";
  if (disk.state === "attached") return "mount";
  return disk.state === "detached" || disk.state === "attaching" ? "attach" : "nothing";
}
