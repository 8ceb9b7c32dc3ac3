import type { Cause as CauseOf } from "@diskmesh/domain";
import type { RetriedCall } from "../cpi/cpi-call.js";
import type { ShownLock } from "../locks/locks.js";
import type { CpiCall } from "../store/cpi-call.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { Task } from "../store/task.js";
import type { TaskEvent } from "../tasks/task-event.js";

/** An object whose causes can be explained. Registries know more about hosts, pools, and the disks that they make. */
export type Subject = {
  readonly kind: "TASK" | "LOCK" | "VM" | "DISK" | "HOST" | "DEVICE" | "POOL" | "SERVICE";
  readonly name: string;
};

/** This process. */
export const DIRECTOR = { kind: "SERVICE", name: "director" } as const satisfies Subject;

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
  | "CPI_RETRIED"
  | "DISPATCHER_AWAY"
  | "FAILED"
  | "IN_USE"
  | "NO_SPACE"
  | "CPI_UNUSABLE"
  | "RECORDS_DIFFER"
  | "HELD_UP";
export type Cause = CauseOf<Subject, Reason>;
export type Found = Omit<Cause, "subject">;

/** An instance with unrecorded facts about its agent. */
export interface KnownVm {
  readonly instance: Instance;
  /** True while this director has no connection to NATS. */
  readonly isNatsAway: boolean;
  /** Start of the agent's silence; undefined when the agent responds or is not monitored. */
  readonly silentSinceMs: number | undefined;
  /** The director's automatic remedy, as a clause. */
  readonly remedy: string;
  /** True when NATS accepts none of the agent's certificates. */
  readonly isShutOut: boolean;
  /** Pending detach notifications: disks that were detached while the agent was unreachable. */
  readonly owedRemovals: readonly OwedRemoval[];
  readonly disks: readonly (Disk | PersistentDisk)[];
  /** Ids of the registry's hosts of the VM, looked up by VM CID. */
  readonly hostIds: readonly string[];
  /** True when all disk registries report that none of their hosts is the VM. Irrelevant for VMs that are not hosts. */
  readonly isNowhere: boolean;
}

export interface Known {
  readonly taskOf: (taskId: number) => Task | undefined;
  readonly locks: readonly ShownLock[];
  /** Returns the unfinished steps of a running task. */
  readonly openSteps: (taskId: number) => readonly TaskEvent[];
  /** Returns the number of unended tasks of a queue. */
  readonly liveIn: (queue: Task["queue"]) => number;
  /** Returns the changing CPI calls for which the task waits. */
  readonly callsOf: (taskId: number) => readonly CpiCall[];
  /** Returns the task's CPI calls that have failed and are tried again. */
  readonly retriesOf: (taskId: number) => readonly RetriedCall[];
  /** The missing need of this director for a dispatcher; undefined when it has one. */
  readonly dispatcherNeed: () => Found | undefined;
  /** Returns the abandoned calls that may be changing the object: see CpiCall.things. */
  readonly callsAt: (thing: string) => readonly CpiCall[];
  readonly nowMs: number;
  /** Time after which waiting work counts as stuck. */
  readonly stuckAfterMs: number;
  /** Returns true while a task works on the deployment, and may yet settle its VMs. */
  readonly isBusy: (deployment: string) => boolean;
  readonly vmOf: (name: string) => KnownVm | undefined;
  readonly diskOf: (name: string) => Disk | PersistentDisk | undefined;
}
