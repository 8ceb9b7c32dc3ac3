import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import type { Target } from "../../instances/instance.js";
import type { Disk } from "../../store/disk.js";
import { type JsonObject, sameJson } from "../../store/json.js";
import type { MeantAttachment } from "../../store/task.js";
import { pathOf } from "./disk.js";

/**
 * A task's next step for a disk, derived from the disk's record. The task derives the step again after each step, so a
 * new director can continue at any point.
 */
export type DiskStep =
  | { readonly do: "create" | "attach" | "set_metadata" | "tell_agent" | "detach" | "delete" }
  | { readonly do: "nothing"; readonly result: string };

/** Progress of this run of the task that is not recorded. */
export interface Progress {
  readonly agentNotified: boolean;
}

interface MadeOf {
  readonly pool: string;
  readonly sizeMib: number;
  /** Undefined when the caller accepts the disk's. */
  readonly onHostSilence?: "keep" | "fence" | undefined;
}

export interface WantedDisk {
  readonly name: string;
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  /** Returns true when the recorded CPI is the wanted CPI, possibly under a former name. */
  readonly sameCpi?: (recorded: string) => boolean;
  /** Undefined when the caller accepts the existing disk. */
  readonly made: MadeOf | undefined;
  /** True when a disk outside of the caller's scope has the name. */
  readonly isNameTaken?: boolean;
  /** Undefined to keep the recorded metadata. */
  readonly metadata: JsonObject | undefined;
}

/**
 * Returns the next step of a provide (`made` given) or an attach. Here and below, `disk` is undefined for a disk outside
 * of the caller's scope, which therefore is answered like a disk that does not exist.
 */
export function decideProvide(
  disk: Disk | undefined,
  wanted: WantedDisk,
  target: Target & { readonly readOnly: boolean },
  progress: Progress,
): DiskStep {
  if (disk === undefined) {
    if (wanted.made === undefined) throw diskNotFound(wanted.name);
    refuseTakenName(wanted);
    return { do: "create" };
  }
  // A contradiction outlasts a detach, so it is named first.
  refuseContradiction(disk, wanted);
  refuseElsewhere(disk, target);
  refuseOtherAccess(disk, target);
  switch (disk.state) {
    case "creating":
      return { do: "create" };
    case "deleting":
      throw beingDeleted(disk);
    case "detached":
    case "attaching":
    case "detaching":
      return { do: "attach" };
    case "attached":
      if (differs(disk, wanted)) return { do: "set_metadata" };
      if (disk.hostId !== undefined)
        return {
          do: "nothing",
          result: `attached disk \`${disk.name}\` to host \`${disk.hostId}\` at ${pathOf(disk)}`,
        };
      if (disk.hint !== null && !progress.agentNotified) return { do: "tell_agent" };
      return {
        do: "nothing",
        result: `attached disk \`${disk.name}\` to \`${target.vmCid}\` in deployment \`${disk.deployment}\`${disk.hint === null ? NOT_TOLD : ""}`,
      };
  }
}

/** Returns the next step of a create. The disk may be attached anywhere. */
export function decideCreate(disk: Disk | undefined, wanted: WantedDisk): DiskStep {
  if (disk === undefined) {
    refuseTakenName(wanted);
    return { do: "create" };
  }
  refuseContradiction(disk, wanted);
  if (disk.state === "creating") return { do: "create" };
  if (disk.state === "deleting") throw beingDeleted(disk);
  if (differs(disk, wanted)) return { do: "set_metadata" };
  const owner = disk.deployment === "" ? "for hosts" : `in deployment \`${disk.deployment}\``;
  return { do: "nothing", result: `created disk \`${disk.name}\` ${owner}` };
}

export const ANY_ATTACHMENT = { instanceId: "", hostId: "", attachmentId: "" } as const;

/**
 * Returns the next step of a detach. A named attachment that is not the current attachment has already ended, so
 * nothing changes.
 */
export function decideDetach(disk: Disk | undefined, diskName: string, meant: MeantAttachment): DiskStep {
  if (disk === undefined) throw diskNotFound(diskName);
  switch (disk.state) {
    case "creating":
    case "deleting":
    case "detached":
      return { do: "nothing", result: `disk \`${disk.diskCid || disk.name}\` was already detached` };
    case "attaching":
    case "attached":
    case "detaching":
      return isMeant(disk, meant) ? { do: "detach" } : { do: "nothing", result: otherMeant(disk, meant) };
  }
}

/**
 * Returns the next step of a delete. A disk whose last attachment is not the named attachment is not the caller's disk,
 * so nothing changes.
 */
export function decideDelete(
  disk: Disk | undefined,
  diskName: string,
  meant: MeantAttachment,
  progress: { readonly deletedCid: string },
): DiskStep {
  if (disk === undefined) {
    const { deletedCid } = progress;
    return {
      do: "nothing",
      result:
        deletedCid === "" ? `disk with name \`${diskName}\` was already deleted` : `deleted disk \`${deletedCid}\``,
    };
  }
  if (!isMeant(disk, meant)) return { do: "nothing", result: otherMeant(disk, meant) };
  switch (disk.state) {
    case "creating":
      // The disk may exist with an unknown CID. Creating it again with the same token returns the CID.
      return { do: "create" };
    case "detached":
    case "deleting":
      return { do: "delete" };
    case "attaching":
    case "attached":
    case "detaching":
      throw new InvalidStateError(`disk \`${disk.name}\` is ${formatAttachment(disk)}: detach it first`, {
        reason: "DISK_IN_USE",
        about: { disk_name: disk.name, vm_cid: disk.vmCid },
      });
  }
}

/**
 * Returns true when the request names the disk's last attachment or none. The instance or host is compared only while
 * the disk is attached, because the record of a detached disk no longer names it.
 */
function isMeant(disk: Disk, { instanceId, hostId = "", attachmentId }: MeantAttachment): boolean {
  const isAnywhere = (instanceId === "" && hostId === "") || disk.vmCid === "";
  const isThere = instanceId === disk.instanceId && hostId === (disk.hostId ?? "");
  return (isAnywhere || isThere) && (attachmentId === "" || attachmentId === disk.attachmentId);
}

function otherMeant(disk: Disk, { instanceId, hostId = "", attachmentId }: MeantAttachment): string {
  const by = attachmentId === "" ? "" : ` by attachment \`${attachmentId}\``;
  const place = hostId === "" ? `instance \`${instanceId}\`` : `host \`${hostId}\``;
  const on = instanceId === "" && hostId === "" ? "" : ` for ${place}`;
  const now = disk.vmCid === "" ? "detached, and was not last attached" : `${formatAttachment(disk)}, but not`;
  return `disk \`${disk.name}\` is ${now}${by}${on}: nothing was changed`;
}

/** The agent finds a disk by the CPI's hint, so without a hint there is nothing to send. */
const NOT_TOLD =
  "; the vm's agent was not notified, because the CPI or the stemcell is of version 1 and gives no disk hint";

function differs(disk: Disk, wanted: WantedDisk): boolean {
  return wanted.metadata !== undefined && !sameJson(disk.metadata, wanted.metadata);
}

function formatAttachment(disk: Disk): string {
  const where = disk.hostId === undefined ? `vm \`${disk.vmCid}\`` : `host \`${disk.hostId}\``;
  if (disk.state === "attaching") return `being attached to ${where}`;
  if (disk.state === "detaching") return `being detached from ${where}`;
  return `attached to ${where}`;
}

function refuseElsewhere(disk: Disk, target: Target): void {
  const isThere = disk.instanceId === target.instanceId && disk.hostId === target.hostId;
  if (disk.vmCid === "" || (isThere && disk.vmCid === target.vmCid)) return;
  throw new InvalidStateError(
    `disk \`${disk.name}\` is ${formatAttachment(disk).replace(/ (vm|host) /, " a different $1 ")}: detach it first`,
    { reason: "DISK_IN_USE", about: { disk_name: disk.name, vm_cid: disk.vmCid } },
  );
}

function refuseOtherAccess(disk: Disk, { readOnly }: { readonly readOnly: boolean }): void {
  if (disk.vmCid === "" || (disk.readOnly ?? false) === readOnly) return;
  const [now, wanted] = readOnly ? ["writable", "read-only"] : ["read-only", "writable"];
  throw new InvalidStateError(
    `disk \`${disk.name}\` is ${formatAttachment(disk)} as ${now}, not as ${wanted}: detach it first`,
    { reason: "DISK_IN_USE", about: { disk_name: disk.name, vm_cid: disk.vmCid } },
  );
}

function refuseTakenName({ name, isNameTaken = false }: WantedDisk): void {
  if (isNameTaken) throw nameTaken(name);
}

/** Returns an error that says nothing about the disk that has the name, which is outside of the caller's scope. */
export function nameTaken(name: string): Error {
  return new InvalidStateError(`disk \`${name}\` cannot be created: its name is taken; choose another name`, {
    reason: "DISK_DIFFERS",
    about: { disk_name: name },
  });
}

function refuseContradiction(disk: Disk, wanted: WantedDisk): void {
  const { name } = disk;
  const about = { reason: "DISK_DIFFERS", about: { disk_name: name } } as const;
  if (disk.deployment !== wanted.deployment) {
    throw new InvalidStateError(`disk \`${name}\` ${whyNotOf(disk, wanted)}`, about);
  }
  if (disk.az !== wanted.az) {
    throw new InvalidStateError(`disk \`${name}\` is in AZ \`${disk.az}\`, not in AZ \`${wanted.az}\``, about);
  }
  if (disk.cpi !== wanted.cpi && wanted.sameCpi?.(disk.cpi) !== true) {
    throw new InvalidStateError(
      `disk \`${name}\` uses CPI ${formatCpi(disk.cpi)}, not CPI ${formatCpi(wanted.cpi)}`,
      about,
    );
  }
  if (wanted.made === undefined) return;
  if (disk.sizeMib !== wanted.made.sizeMib) {
    throw new InvalidStateError(
      `disk \`${name}\` exists with ${disk.sizeMib} MiB, but the request has ${wanted.made.sizeMib} MiB: request the same size`,
      about,
    );
  }
  const { onHostSilence } = wanted.made;
  const { on_host_silence: rule = "keep" } = disk.cloudProperties;
  if (onHostSilence !== undefined && onHostSilence !== rule) {
    throw new InvalidStateError(
      `disk \`${name}\` exists with on_host_silence ${rule}, but the request has ${onHostSilence}: request the same policy`,
      about,
    );
  }
  if (disk.pool !== wanted.made.pool) {
    const kind = disk.deployment === "" ? "pool" : "disk type";
    throw new InvalidStateError(
      `disk \`${name}\` exists with ${kind} \`${disk.pool}\`, but the request has \`${wanted.made.pool}\`: request the same ${kind}`,
      about,
    );
  }
}

/** Returns why a disk cannot be that of another deployment, or of none. Disks without a deployment are for hosts. */
function whyNotOf({ deployment }: Disk, wanted: WantedDisk): string {
  if (deployment === "") return "was made for a host, and belongs to no deployment: give a host instead of an instance";
  const owner = `belongs to deployment \`${deployment}\``;
  if (wanted.deployment !== "") return `${owner}, not to deployment \`${wanted.deployment}\``;
  return `${owner}: give an instance of it instead of a host, or provide a disk of another name`;
}

function formatCpi(cpi: string): string {
  return cpi === "" ? "(default)" : `\`${cpi}\``;
}

/** Returns true when the disk is smaller than wanted. Throws when the disk cannot be enlarged to that size. */
export function decideResize(disk: Disk | undefined, diskName: string, sizeMib: number): boolean {
  const made = requireMade(disk, diskName);
  if (made.sizeMib <= sizeMib) return made.sizeMib < sizeMib;
  throw new InvalidStateError(
    `disk \`${diskName}\` has ${made.sizeMib} MiB and cannot shrink to ${sizeMib} MiB: request at least its size`,
    { reason: "DISK_DIFFERS", about: { disk_name: diskName } },
  );
}

/** Returns the disk. Throws when the disk does not exist, or its creation or deletion has not ended. */
export function requireMade(disk: Disk | undefined, diskName: string): Disk {
  if (disk === undefined) throw diskNotFound(diskName);
  if (disk.state === "deleting") throw beingDeleted(disk);
  if (disk.state !== "creating") return disk;
  throw new InvalidStateError(`disk \`${diskName}\` is being created: repeat the creation until it ends`, {
    about: { disk_name: diskName },
  });
}

export function diskNotFound(name: string): Error {
  return new NotFoundError(`disk \`${name}\` not found`, { about: { disk_name: name } });
}

function beingDeleted(disk: Disk): Error {
  return new InvalidStateError(`disk \`${disk.name}\` is being deleted: repeat the deletion until it ends`, {
    reason: "BEING_DELETED",
    about: { disk_name: disk.name },
  });
}
