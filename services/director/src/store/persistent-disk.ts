import type { DiskRecord } from "./disk.js";

/**
 * The known state of an instance's disk.
 * creating: create_disk may have been called. detached: it exists, attached to nothing. attaching: attach_disk may have
 * been called. attached: it is, and the VM's agent has not mounted it yet. mounted: it has. detaching: it may be unmounted,
 * detach_disk may have been called.
 */
export type PersistentDiskState = "creating" | "detached" | "attaching" | "attached" | "mounted" | "detaching";

/** A disk that belongs to an instance and outlives its VMs. */
export interface PersistentDisk extends DiskRecord {
  /** Chosen by us; also the token by which CPIs that can find the disk again. */
  readonly diskId: string;
  readonly group: string;
  readonly instanceId: string;
  readonly state: PersistentDiskState;
  /**
   * While an instance's disk is copied, the other one beside it. next: what is copied to. former: what was copied from,
   * once the instance's disk is the copy. Absent: it is the instance's disk, or an orphan.
   */
  readonly role?: "next" | "former" | undefined;
  /** When its instance, or the manifest, had no use for it any more; null while it is in use. */
  readonly orphanedAtMs: number | null;
}
