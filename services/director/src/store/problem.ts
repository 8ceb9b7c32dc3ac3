/** The effect of each resolution, for people. Names are BOSH's where it has them. */
export const PLANS = {
  ignore: "leave it as it is",
  recreate_vm: "delete the VM if it is there, and make another, with the instance's persistent disk",
  reboot_vm: "reboot the VM, and wait for its agent",
  delete_vm: "detach the VM's disks and delete it; the next deploy makes another",
  delete_vm_reference: "detach the VM's disks and forget it without deleting it; the next deploy makes another",
  delete_disk_reference: "forget the disk, with what is on it, should it be there after all",
  reattach_disk: "detach the disk from wherever it is, and attach it to the instance's VM",
  detach_disk: "detach the disk from wherever it is",
  add_link: "tell the VM's agent of the disk again",
  remove_link: "have the VM's agent remove its link",
} as const;
export type Resolution = keyof typeof PLANS;

type ProblemType =
  | "missing_vm"
  | "unresponsive_agent"
  | "missing_disk"
  | "mount_info_mismatch"
  | "missing_link"
  | "surplus_link"
  | "unknown_vm";

/** Which record a disk has: a dynamic disk by its name, a persistent one by its id. */
export interface DiskKey {
  readonly kind: "dynamic" | "persistent";
  readonly key: string;
}

/** Something that is not as recorded. */
export interface Finding {
  readonly type: ProblemType;
  readonly deployment: string;
  /**
   * The group of its instance; group and index are empty for a problem without an instance, such as an orphaned disk.
   */
  readonly group: string;
  readonly instanceId: string;
  /** The recorded VM; empty for none. For an unknown VM, its own id. */
  readonly vmCid: string;
  /** The CPI that has it. */
  readonly cpi: string;
  /** Empty when it is about none. */
  readonly diskCid: string;
  /** Null when it is about none, or about one that nobody knows. */
  readonly disk: DiskKey | null;
  /** Other instances whose VMs have the disk. */
  readonly elsewhere: readonly string[];
  readonly description: string;
}

/** A finding that was recorded, until a later scan does not find it any more. */
export interface Problem extends Finding {
  readonly problemId: number;
  readonly foundAtMs: number;
  /** False once it has been dealt with. */
  readonly open: boolean;
  /** The task that began to act on it, having found it to be there still; 0 for none. */
  readonly begunByTaskId: number;
  /** The task that last ended with it, and what became of it. */
  readonly handledByTaskId: number;
  readonly outcome: string;
}

/** The chosen resolution of a problem; an empty one means its default. */
export interface Answer {
  readonly problemId: number;
  readonly resolution: string;
}
