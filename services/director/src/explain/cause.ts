import type { Cause as CauseOf } from "@diskmesh/domain";
import type { ShownLock } from "../locks/locks.js";
import type { CpiCall } from "../store/cpi-call.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { Task } from "../store/task.js";
import type { TaskEvent } from "../tasks/task-event.js";

/** Registries know more about hosts and pools, and about the disks that they make. */
export type Subject = {
  readonly kind: "TASK" | "LOCK" | "VM" | "DISK" | "HOST" | "DEVICE" | "POOL";
  readonly name: string;
};

type Reason =
  | "HELD"
  | "WAITS_FOR_LOCK"
  | "WAITS_FOR_WORKER"
  | "IS_TO_STOP"
  | "AT_WORK"
  | "LOCK_HELD"
  | "LOCKED"
  | "IGNORED"
  | "STOPPED"
  | "NO_VM"
  | "VM_UNSETTLED"
  | "VM_LOST"
  | "VM_NOWHERE"
  | "NATS_AWAY"
  | "AGENT_SILENT"
  | "CERTIFICATE_ENDED"
  | "OWES_REMOVALS"
  | "DISK_UNSETTLED"
  | "CPI_AT_WORK"
  | "FAILED"
  | "IN_USE"
  | "NO_SPACE"
  | "CPI_UNUSABLE"
  | "HELD_UP";
export type Cause = CauseOf<Subject, Reason>;
export type Found = Omit<Cause, "subject">;

/** An instance, and what is known of its agent beside what is recorded. */
export interface KnownVm {
  readonly instance: Instance;
  /** No agent can be heard now. */
  readonly isNatsAway: boolean;
  /** Its agent has said nothing for longer than it may; undefined: it is heard, or is not to be. */
  readonly silentSinceMs: number | undefined;
  /** The director's own remedy, as a clause. */
  readonly remedy: string;
  /** NATS takes no certificate of its agent any more. */
  readonly isShutOut: boolean;
  /** Removals of disks that were detached while the agent could not be told. */
  readonly owedRemovals: readonly OwedRemoval[];
  readonly disks: readonly (Disk | PersistentDisk)[];
  /** The registry's hosts of the VM, by the CPI's id of it. */
  readonly hostIds: readonly string[];
  /** All disk-registries say that no host of theirs is the VM, which says nothing of VMs that are no hosts. */
  readonly isNowhere: boolean;
}

export interface Known {
  readonly taskOf: (taskId: number) => Task | undefined;
  readonly locks: readonly ShownLock[];
  /** Returns the unfinished steps of a running task. */
  readonly openSteps: (taskId: number) => readonly TaskEvent[];
  /** How many tasks of a queue have not ended. */
  readonly liveIn: (queue: Task["queue"]) => number;
  /** Calls of CPIs that change something and that a task waits for now. */
  readonly callsOf: (taskId: number) => readonly CpiCall[];
  /** Calls that nobody waits for, and that may be changing this: see CpiCall.things. */
  readonly callsAt: (thing: string) => readonly CpiCall[];
  readonly nowMs: number;
  readonly vmOf: (name: string) => KnownVm | undefined;
  readonly diskOf: (name: string) => Disk | PersistentDisk | undefined;
}
