import { InvalidStateError } from "@diskmesh/domain";
import type { CloudConfig } from "./cloud-config.js";
import { diskTypeNamed } from "./cloud-config.js";
import { type Json, type JsonObject, sameJson } from "./json.js";
import type { GroupSpec } from "./placement.js";

/**
 * What is known of the disk of an instance.
 * creating: create_disk may have been called. detached: it exists, attached to nothing. attaching: attach_disk may have
 * been called. attached: it is, and the VM's agent has not mounted it yet. mounted: it has. detaching: it may be unmounted,
 * detach_disk may have been called.
 */
export type PersistentDiskState = "creating" | "detached" | "attaching" | "attached" | "mounted" | "detaching";

/** A disk that belongs to an instance and outlives its VMs. */
export interface PersistentDisk {
  /** Chosen by us; also the token by which CPIs that can find the disk again. */
  readonly diskId: string;
  readonly deployment: string;
  readonly group: string;
  readonly instanceId: string;
  readonly az: string;
  readonly cpi: string;
  readonly sizeMib: number;
  readonly cloudProperties: JsonObject;
  readonly state: PersistentDiskState;
  /** Empty until it is known to exist. */
  readonly diskCid: string;
  /** Empty when it surely is attached to nothing. */
  readonly vmCid: string;
  /** Where the VM's agent finds it; null when the bosh-registry tells the agent. */
  readonly hint: Json;
  /** When its instance, or the manifest, had no use for it any more; null while it is in use. */
  readonly orphanedAtMs: number | null;
}

export interface WantedPersistentDisk {
  readonly sizeMib: number;
  readonly cloudProperties: JsonObject;
}

/** What the manifest wants for each instance of the group; undefined for no disk. */
export function wantedPersistentDisk(group: GroupSpec, config: CloudConfig): WantedPersistentDisk | undefined {
  const { persistentDisk: wanted } = group;
  if (wanted === undefined) return undefined;
  if (wanted.type === "") return wanted.sizeMib === 0 ? undefined : { sizeMib: wanted.sizeMib, cloudProperties: {} };
  const { sizeMib, cloudProperties } = diskTypeNamed(config, wanted.type);
  return { sizeMib, cloudProperties };
}

export type PersistentDiskStep = "create" | "attach" | "mount" | "detach" | "change" | "orphan" | "nothing";

/** The next step towards what is wanted, for an instance with a running VM. */
export function decidePersistentDisk(
  disk: PersistentDisk | undefined,
  wanted: WantedPersistentDisk | undefined,
): PersistentDiskStep {
  if (disk === undefined) return wanted === undefined ? "nothing" : "create";
  // Without its id it could not even be deleted.
  if (disk.state === "creating") return "create";
  if (disk.state === "detaching") return "detach";
  if (wanted === undefined) return disk.state === "detached" ? "orphan" : "detach";
  refuseShrinking(disk, wanted);
  if (disk.sizeMib !== wanted.sizeMib || !sameJson(disk.cloudProperties, wanted.cloudProperties))
    return disk.state === "detached" ? "change" : "detach";
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

function refuseShrinking(disk: PersistentDisk, wanted: WantedPersistentDisk): void {
  if (wanted.sizeMib >= disk.sizeMib) return;
  throw new InvalidStateError(
    `the persistent disk of ${disk.group}/${disk.instanceId} has ${disk.sizeMib} MiB and cannot shrink to ${wanted.sizeMib} MiB: keep its size, or remove it first, which leaves it as an orphan`,
    { about: { disk_cid: disk.diskCid } },
  );
}
