/** The displayed effect of each resolution. Resolution names are BOSH's where BOSH has a name. */
export const PLANS = {
  ignore: "leave it as it is",
  recreate_vm: "delete the VM if it is there, and make another, with the instance's persistent disk",
  reboot_vm: "reboot the VM, and wait for its agent",
  delete_vm: "detach the VM's disks and delete it; the next deploy makes another",
  delete_vm_reference: "detach the VM's disks and forget it without deleting it; the next deploy makes another",
  delete_disk_reference: "forget the disk, and its data if it still exists",
  reattach_disk: "detach the disk from wherever it is, and attach it to the instance's VM",
  detach_disk: "detach the disk from wherever it is",
  add_link: "notify the VM's agent of the disk again",
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

/** The key of a disk's record: the name of a dynamic disk, the id of a persistent disk. */
export interface DiskKey {
  readonly kind: "dynamic" | "persistent";
  readonly key: string;
}

/** A deviation of the infrastructure from the records. */
export interface Finding {
  readonly type: ProblemType;
  readonly deployment: string;
  /** Empty, like the instance id, for a problem without an instance, such as an orphaned disk. */
  readonly group: string;
  readonly instanceId: string;
  /** The recorded VM, or the cid of an unknown VM; empty for none. */
  readonly vmCid: string;
  readonly cpi: string;
  /** Empty when the problem concerns no disk. */
  readonly diskCid: string;
  /** Null when the problem concerns no disk or an unrecorded disk. */
  readonly disk: DiskKey | null;
  /** Other instances whose VMs have the disk attached. */
  readonly elsewhere: readonly string[];
  readonly description: string;
}

/** A recorded finding. The record stays until a later scan finds the problem gone. */
export interface Problem extends Finding {
  readonly problemId: number;
  readonly foundAtMs: number;
  /** False once the problem has been handled. */
  readonly open: boolean;
  /** The task that began a resolution after it had confirmed the problem; 0 for none. */
  readonly begunByTaskId: number;
  /** The task that last finished handling the problem; `outcome` is its result. */
  readonly handledByTaskId: number;
  readonly outcome: string;
}

/** The chosen resolution of a problem; empty selects the default resolution. */
export interface Answer {
  readonly problemId: number;
  readonly resolution: string;
}
