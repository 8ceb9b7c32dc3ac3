import type { InstanceState } from "./instance.js";
import type { JsonObject } from "./json.js";
import type { Answer } from "./problem.js";

/** The attachment that a caller means; what is empty is not compared. */
export interface MeantAttachment {
  readonly instanceId: string;
  readonly attachmentId: string;
}

/**
 * The states that operators request, in BOSH's words: a state to be in, or a restart or recreation that ends in
 * `started`.
 */
export type WantedState = InstanceState | "restart" | "recreate";

/** Which instances of a deployment are meant. */
export interface Selection {
  /** Empty for all. */
  readonly group: string;
  /** Its index in the group, or its id; empty for all. */
  readonly instance: string;
}

/** The states of tasks that have ended. */
export const ENDED_STATES = ["done", "error", "cancelled", "timeout"] as const;
export type TaskState = "queued" | "held" | "processing" | "cancelling" | (typeof ENDED_STATES)[number];
export const TASK_QUEUES = ["urgent", "normal", "dynamic_disks", "vendor_methods"] as const;
export type TaskQueue = (typeof TASK_QUEUES)[number];

type MeantDisk = {
  readonly diskName: string;
  /** Absent where an older version recorded the task: whichever. */
  readonly meant?: MeantAttachment;
};

export type SkipDrain = boolean | readonly string[];

/** How instances are updated, beside what the manifest says. */
export type UpdateOptions = {
  /** Jobs run neither pre-stop nor drain before they are stopped: of all instances, or of those of some groups. */
  readonly skipDrain: SkipDrain;
  /** Instead of those of the update block: a number, or a share such as "20%"; empty for the block's. */
  readonly canaries: string;
  readonly maxInFlight: string;
  /** Tells what would be done, and does nothing. Absent where an older version recorded the task: no. */
  readonly dryRun?: boolean;
};

/** The objects to clean up beside stemcells that have long been unused. */
export type CleanUpScope = {
  /** Also the latest stemcells that are in no use, and orphaned disks. */
  readonly all: boolean;
  readonly keepOrphanedDisks: boolean;
};
/** An instance whose VM is to be made anew, if it still is that VM and still silent. */
export type Resurrected = { readonly instanceId: string; readonly vmCid: string };

/** The kinds of logs that agents tell apart: those of jobs, their own, and those of the operating system. */
export type LogType = "job" | "agent" | "system";

/** The work of a task. Everything else is read from the tables when it runs. */
export type Job =
  | {
      readonly type: "provide_dynamic_disk";
      readonly diskName: string;
      readonly instanceId: string;
      readonly pool: string;
      readonly sizeMib: number;
      readonly metadata: JsonObject | null;
    }
  | {
      readonly type: "create_dynamic_disk";
      readonly diskName: string;
      readonly deployment: string;
      readonly az: string;
      readonly pool: string;
      readonly sizeMib: number;
      readonly metadata: JsonObject | null;
    }
  | {
      readonly type: "attach_dynamic_disk";
      readonly diskName: string;
      readonly instanceId: string;
      readonly metadata: JsonObject | null;
    }
  | ({ readonly type: "detach_dynamic_disk" } & MeantDisk)
  | ({ readonly type: "delete_dynamic_disk" } & MeantDisk)
  | {
      readonly type: "update_deployment";
      readonly deployment: string;
      readonly manifest: string;
      /** Absent where an older version recorded the task: none. */
      readonly options?: UpdateOptions & { readonly recreate: boolean };
      /** Those for whom it was asked, whose a new deployment becomes; absent for an administrator. */
      readonly teams?: readonly string[];
    }
  | ({
      readonly type: "update_instances";
      readonly deployment: string;
      readonly selection: Selection;
      readonly wanted: WantedState;
      /** A VM whose agent does not answer is made anew. */
      readonly fix: boolean;
    } & UpdateOptions)
  | {
      readonly type: "delete_deployment";
      readonly deployment: string;
      /**
       * Objects that cannot be deleted are left behind. Absent, where an older version recorded the task, means false.
       */
      readonly force?: boolean;
    }
  | { readonly type: "delete_vm"; readonly vmCid: string }
  | ({ readonly type: "clean_up" } & CleanUpScope)
  | {
      readonly type: "update_stemcell";
      readonly name: string;
      readonly version: string;
      readonly operatingSystem: string;
      readonly apiVersion: number;
      readonly formats: readonly string[];
      readonly cloudProperties: JsonObject;
      /** Names the folder of the image. */
      readonly uploadId: string;
      readonly fix: boolean;
    }
  /** Becomes an update_stemcell once the file is here. */
  | {
      readonly type: "fetch_stemcell";
      readonly location: string;
      /** Empty where nobody knows it. */
      readonly digest: string;
      readonly fix: boolean;
    }
  | { readonly type: "delete_stemcell"; readonly name: string; readonly version: string; readonly force: boolean }
  /** With `withoutVm` also of instances that have none. */
  | { readonly type: "retrieve_vm_stats"; readonly deployment: string; readonly withoutVm: boolean }
  | {
      readonly type: "fetch_logs";
      readonly deployment: string;
      readonly selection: Selection;
      readonly logTypes: readonly LogType[];
      /** Globs of files within the folder of a type; none for all. */
      readonly filters: readonly string[];
    }
  | { readonly type: "delete_orphaned_disk"; readonly diskCid: string; readonly force?: boolean }
  | { readonly type: "orphan_persistent_disk"; readonly diskCid: string }
  | { readonly type: "attach_orphaned_disk"; readonly diskCid: string; readonly instanceId: string }
  /** Takes snapshots of one instance's disks; an empty id means all of the deployment. */
  | { readonly type: "take_snapshots"; readonly deployment: string; readonly instanceId: string }
  /** One; empty for all of the deployment. */
  | { readonly type: "delete_snapshots"; readonly deployment: string; readonly snapshotCid: string }
  | { readonly type: "settle_owed_removals"; readonly agentId: string }
  | { readonly type: "renew_agent_certificates"; readonly instanceIds: readonly string[] }
  /** Agents that may have been restarted are told of their VMs' dynamic disks. */
  | { readonly type: "tell_agents"; readonly agentIds: readonly string[] }
  | { readonly type: "resurrect_instances"; readonly deployment: string; readonly vms: readonly Resurrected[] }
  | { readonly type: "scan_deployment"; readonly deployment: string }
  | {
      readonly type: "resolve_problems";
      readonly deployment: string;
      readonly answers: readonly Answer[];
      /** All others by their defaults, too. */
      readonly auto: boolean;
    }
  | {
      readonly type: "call_vendor_method";
      /** Empty for a method of the driver itself. */
      readonly nodeId: string;
      readonly driver: string;
      readonly method: string;
      readonly httpMethod: string;
      readonly args: JsonObject;
      /** The names of those that nobody shall see. */
      readonly secretArgs: readonly string[];
      readonly exclusiveLock: boolean;
      /** The start of the agent, or of the director, that runs it: no other one begins it again. Absent before. */
      readonly begunOn?: string;
    };
export type JobType = Job["type"];
export type JobOf<Type extends JobType> = Extract<Job, { readonly type: Type }>;

/** Why a task is to stop before its job is through, and which end that is. */
export interface Stop {
  readonly as: "cancelled" | "timeout";
  readonly why: string;
}

/** Why a task failed, for programs: an error's reason, and what it is about. */
export interface TaskFailure {
  readonly reason: string;
  readonly about: Readonly<Record<string, string>>;
  /** The google.rpc.Code. Absent in tasks of older versions. */
  readonly code?: number | undefined;
}

/** A durable unit of work. */
export interface Task {
  readonly taskId: number;
  readonly type: JobType;
  readonly description: string;
  readonly queue: TaskQueue;
  readonly user: string;
  /** Empty when it is about none. */
  readonly deployment: string;
  readonly state: TaskState;
  /** Null once the task has ended: a manifest is large, and nobody runs it again. */
  readonly job: Job | null;
  readonly stop: Stop | null;
  readonly result: string;
  /** The output of type result where that is not `result`; absent where it is, or the task wrote lines of its own. */
  readonly output?: string | undefined;
  /** The client's name for the chain of requests that it is a part of; absent for none. */
  readonly contextId?: string | undefined;
  /** The request that started it; absent where the director started it by itself, or an older version did. */
  readonly requestId?: string | undefined;
  /** How who asked for it had shown who that is; absent likewise. */
  readonly authentication?: string | undefined;
  /** The W3C trace context of the request that started it; absent where that was part of no trace. */
  readonly traceParent?: string | undefined;
  /** The teams of its deployment at the request; absent for none. */
  readonly teams?: readonly string[] | undefined;
  /** The CPIs that it was to ask when it came, as shareNameOf names them; absent where an older version recorded it. */
  readonly cpiShare?: string | undefined;
  /** How many directors have taken it. */
  readonly attempts: number;
  readonly createdAtMs: number;
  readonly startedAtMs: number | null;
  readonly endedAtMs: number | null;
  /** How many events it had when it ended: no later one counts. Absent where that was not known. */
  readonly eventCount?: number | undefined;
  /** Why it failed; absent where that is a bug, or an older version did not record it. */
  readonly failure?: TaskFailure | undefined;
  /** Bytes of the ended task's events and other outputs in their store; absent where an older version did not count. */
  readonly outputSizeBytes?: number | undefined;
}

export function hasEnded(task: Task): boolean {
  return task.endedAtMs !== null;
}

/**
 * Returns a task that is restored from a backup. One that had not ended is held until an operator resumes or cancels
 * it, because nobody knows how far it has come since.
 */
export function restored(task: Task): Task {
  return hasEnded(task) ? task : { ...task, state: "held" };
}
