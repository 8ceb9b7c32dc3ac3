import type { IoLimits } from "@diskmesh/domain";
import type { InstanceState } from "./instance.js";
import type { JsonObject } from "./json.js";
import type { Answer } from "./problem.js";
import type { Scope } from "./scope.js";

/** The attachment to which a request refers; empty fields are not compared. */
export interface MeantAttachment {
  readonly instanceId: string;
  /** Absent in jobs of older versions. */
  readonly hostId?: string;
  readonly attachmentId: string;
}

/**
 * The states that operators request, in BOSH's terms: a target state, or a restart or recreation that ends in
 * `started`.
 */
export type WantedState = InstanceState | "restart" | "recreate";

/** Selects instances of a deployment. */
export interface Selection {
  /** Empty for all. */
  readonly group: string;
  /** The instance's index in the group or its id; empty for all. */
  readonly instance: string;
}

export const ENDED_STATES = ["done", "error", "cancelled", "timeout"] as const;
export type TaskState = "queued" | "held" | "processing" | "cancelling" | (typeof ENDED_STATES)[number];
export const TASK_QUEUES = ["urgent", "normal", "dynamic_disks", "vendor_methods"] as const;
export type TaskQueue = (typeof TASK_QUEUES)[number];

/** The scope of a request about a dynamic disk. Undefined without a scope, and in records of older versions. */
type OfScope = { readonly scope?: Scope | undefined };

/** The place to which a request attaches a disk: an instance, or a host. */
export type WantedPlace = {
  /** Empty for a host. */
  readonly instanceId: string;
  readonly hostId?: string;
  /** The CPI of the host, empty for the default CPI. Undefined for the one CPI that has the host. */
  readonly hostCpi?: string;
};

type MeantDisk = {
  readonly diskName: string;
  /** Absent: any attachment. */
  readonly meant?: MeantAttachment;
};

export type SkipDrain = boolean | readonly string[];

/** Options of an instance update that override the manifest. */
export type UpdateOptions = {
  /** Skips pre-stop and drain on all instances, or on the instances of the listed groups. */
  readonly skipDrain: SkipDrain;
  /** Overrides the update block: a number, or a percentage such as "20%"; empty keeps the block's value. */
  readonly canaries: string;
  readonly maxInFlight: string;
  /** Reports the planned changes without applying them. */
  readonly dryRun: boolean;
};

/** The scope of a clean-up, which always deletes the unused versions of each stemcell except for the latest. */
export type CleanUpScope = {
  /** Also deletes the latest unused versions of stemcells, and orphaned disks unless `keepOrphanedDisks` is set. */
  readonly all: boolean;
  readonly keepOrphanedDisks: boolean;
};
/** An instance to recreate, if the VM is still the same and still silent. */
export type Resurrected = { readonly instanceId: string; readonly vmCid: string };

/** The log sources of an agent: jobs, the agent itself, and the operating system. */
export type LogType = "job" | "agent" | "system";

/** The parameters of a task's work. All other input is read from the tables when the task runs. */
export type Job =
  | (OfScope &
      WantedPlace & {
        readonly type: "provide_dynamic_disk";
        readonly diskName: string;
        readonly pool: string;
        readonly sizeMib: number;
        readonly metadata: JsonObject | null;
        /** Absent means false. */
        readonly readOnly?: boolean;
      })
  | (OfScope & {
      readonly type: "create_dynamic_disk";
      readonly diskName: string;
      /** Empty for a disk for hosts. */
      readonly deployment: string;
      /** Empty for the az of `hostId`. */
      readonly az: string;
      /** The instance of the deployment that will use the disk. Undefined for none. */
      readonly instanceId?: string;
      /** The host that will use the disk. Undefined for none, and for a disk of a deployment. */
      readonly hostId?: string;
      /** The CPI of the host, as in WantedPlace. */
      readonly hostCpi?: string;
      readonly pool: string;
      readonly sizeMib: number;
      readonly metadata: JsonObject | null;
      /** Undefined: the disk type's. */
      readonly onHostSilence?: "keep" | "fence";
      /** Undefined: the host's agent chooses, or the disk type. */
      readonly exportKind?: "device" | "nbd";
    })
  | (OfScope &
      WantedPlace & {
        readonly type: "attach_dynamic_disk";
        readonly diskName: string;
        readonly metadata: JsonObject | null;
        /** Absent means false. */
        readonly readOnly?: boolean;
      })
  | (OfScope & { readonly type: "resize_dynamic_disk"; readonly diskName: string; readonly sizeMib: number })
  /** Null for no limits. */
  | (OfScope & {
      readonly type: "set_dynamic_disk_limits";
      readonly diskName: string;
      readonly limits: IoLimits | null;
    })
  | (OfScope & { readonly type: "detach_dynamic_disk" } & MeantDisk)
  | (OfScope & { readonly type: "delete_dynamic_disk" } & MeantDisk)
  /** An empty CID for the disk that was deleted last. */
  | (OfScope & { readonly type: "undelete_dynamic_disk"; readonly diskName: string; readonly diskCid: string })
  | {
      readonly type: "update_deployment";
      readonly deployment: string;
      readonly manifest: string;
      readonly options: UpdateOptions & { readonly recreate: boolean };
      /** The teams that a new deployment is assigned to; undefined for an administrator's deploy. */
      readonly teams?: readonly string[];
    }
  | ({
      readonly type: "update_instances";
      readonly deployment: string;
      readonly selection: Selection;
      readonly wanted: WantedState;
      /** Recreates VMs whose agents do not answer. */
      readonly fix: boolean;
    } & UpdateOptions)
  | {
      readonly type: "delete_deployment";
      readonly deployment: string;
      /** Leaves objects behind that cannot be deleted. */
      readonly force: boolean;
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
      /** Names the directory of the uploaded image. */
      readonly uploadId: string;
      readonly fix: boolean;
    }
  /** Becomes an update_stemcell job once the file has been downloaded. */
  | {
      readonly type: "fetch_stemcell";
      readonly location: string;
      /** Empty when unknown. */
      readonly digest: string;
      readonly fix: boolean;
    }
  | { readonly type: "delete_stemcell"; readonly name: string; readonly version: string; readonly force: boolean }
  /** `withoutVm` includes instances without a VM. */
  | { readonly type: "retrieve_vm_stats"; readonly deployment: string; readonly withoutVm: boolean }
  | {
      readonly type: "fetch_logs";
      readonly deployment: string;
      readonly selection: Selection;
      readonly logTypes: readonly LogType[];
      /** Globs relative to the directory of a log type; empty for all files. */
      readonly filters: readonly string[];
    }
  | { readonly type: "delete_orphaned_disk"; readonly diskCid: string; readonly force?: boolean }
  | { readonly type: "orphan_persistent_disk"; readonly diskCid: string }
  | { readonly type: "attach_orphaned_disk"; readonly diskCid: string; readonly instanceId: string }
  /** Takes snapshots of an instance's disks; an empty id means every instance of the deployment. */
  | { readonly type: "take_snapshots"; readonly deployment: string; readonly instanceId: string }
  /** Deletes a snapshot; an empty cid means every snapshot of the deployment. */
  | { readonly type: "delete_snapshots"; readonly deployment: string; readonly snapshotCid: string }
  | { readonly type: "settle_owed_removals"; readonly agentId: string }
  | { readonly type: "renew_agent_certificates"; readonly instanceIds: readonly string[] }
  /** Notifies agents that may have restarted of the dynamic disks of their VMs. */
  | { readonly type: "tell_agents"; readonly agentIds: readonly string[] }
  | { readonly type: "resurrect_instances"; readonly deployment: string; readonly vms: readonly Resurrected[] }
  | { readonly type: "scan_deployment"; readonly deployment: string }
  | {
      readonly type: "resolve_problems";
      readonly deployment: string;
      readonly answers: readonly Answer[];
      /** Resolves all other problems with their default resolutions. */
      readonly auto: boolean;
    }
  | {
      readonly type: "call_vendor_method";
      /** Empty for a method of the driver rather than of a node. */
      readonly nodeId: string;
      readonly driver: string;
      readonly method: string;
      readonly httpMethod: string;
      readonly args: JsonObject;
      /** The names of arguments whose values are secret. */
      readonly secretArgs: readonly string[];
      readonly exclusiveLock: boolean;
      /**
       * The start id of the agent or director process that runs the call. No other process starts the call again.
       * Undefined before the call begins.
       */
      readonly begunOn?: string;
    };
export type JobType = Job["type"];
export type JobOf<Type extends JobType> = Extract<Job, { readonly type: Type }>;

/** The reason to stop a task early, and the resulting end state. */
export interface Stop {
  readonly as: "cancelled" | "timeout";
  readonly why: string;
}

/** The machine-readable cause of a failed task: the error's reason and its subject. */
export interface TaskFailure {
  readonly reason: string;
  readonly about: Readonly<Record<string, string>>;
  /** A google.rpc.Code. */
  readonly code: number;
}

export interface Task {
  readonly taskId: number;
  readonly type: JobType;
  readonly description: string;
  readonly queue: TaskQueue;
  readonly user: string;
  /** Empty when the task concerns no deployment. */
  readonly deployment: string;
  readonly state: TaskState;
  /**
   * Null once the task has ended, because manifests are large and no longer needed. A failed task keeps a job that a
   * person can retry on the page.
   */
  readonly job: Job | null;
  readonly stop: Stop | null;
  readonly result: string;
  /**
   * The output of type `result` if it differs from the `result` field; undefined if equal, or if the task wrote result
   * lines.
   */
  readonly output?: string | undefined;
  /** The client's id for a chain of requests; undefined for none. */
  readonly contextId?: string | undefined;
  /** The request that started the task; undefined for tasks that the director started. */
  readonly requestId?: string | undefined;
  /** The caller's authentication method; undefined as for `requestId`. */
  readonly authentication?: string | undefined;
  /** The W3C trace context of the request that started the task; undefined for an untraced request. */
  readonly traceParent?: string | undefined;
  /** The teams of the task's deployment at the time of the request; undefined for none. */
  readonly teams?: readonly string[] | undefined;
  /**
   * The name (cpiSetName) of the set of CPIs that the task had to call when it was recorded; undefined in records of
   * older versions.
   */
  readonly cpiShare?: string | undefined;
  /** The number of directors that have run the task. */
  readonly attempts: number;
  readonly createdAtMs: number;
  readonly startedAtMs: number | null;
  readonly endedAtMs: number | null;
  /** The number of events when the task ended; later events are ignored. Undefined when unknown. */
  readonly eventCount?: number | undefined;
  /** Undefined when the failure was a bug. */
  readonly failure?: TaskFailure | undefined;
  /** Stored bytes of the ended task's events and other outputs; undefined in records of older versions. */
  readonly outputSizeBytes?: number | undefined;
}

export function hasEnded(task: Task): boolean {
  return task.endedAtMs !== null;
}

/**
 * Returns a task restored from a backup. A live task becomes held until an operator resumes or cancels it, because its
 * progress since the backup is unknown.
 */
export function restored(task: Task): Task {
  return hasEnded(task) ? task : { ...task, state: "held" };
}
