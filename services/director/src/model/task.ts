import { InvalidStateError } from "@diskmesh/domain";
import type { MeantAttachment } from "./disk-decisions.js";
import type { JsonObject } from "./json.js";
import type { Selection, WantedState } from "./lifecycle.js";
import type { Answer } from "./problem.js";

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

export function skipsDrain(skipDrain: SkipDrain, group: string): boolean {
  return typeof skipDrain === "boolean" ? skipDrain : skipDrain.includes(group);
}

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

/** What to clean up beside stemcells that nothing was made of for long. */
export type CleanUpScope = {
  /** Also the latest stemcells that are in no use, and orphaned disks. */
  readonly all: boolean;
  readonly keepOrphanedDisks: boolean;
};
/** An instance whose VM is to be made anew, if it still is that VM and still silent. */
export type Resurrected = { readonly instanceId: string; readonly vmCid: string };

/** What agents tell apart: logs of jobs, their own, and those of the operating system. */
export type LogType = "job" | "agent" | "system";

/** What a task is to do. Everything else is read from the tables when it runs. */
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
      /** What cannot be deleted is left behind. Absent where an older version recorded the task: no. */
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
  | { readonly type: "delete_orphaned_disk"; readonly diskCid: string }
  | { readonly type: "orphan_persistent_disk"; readonly diskCid: string }
  | { readonly type: "attach_orphaned_disk"; readonly diskCid: string; readonly instanceId: string }
  /** Of one instance; empty for all of the deployment. */
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
      /** By which start of the agent, or of the director, it is run: no other one begins it again. Absent before. */
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
  /** What the client called the chain of requests that it is a part of; absent for none. */
  readonly contextId?: string | undefined;
  /** Of the request that started it; absent where the director started it by itself, or an older version did. */
  readonly requestId?: string | undefined;
  /** How who asked for it had shown who that is; absent likewise. */
  readonly authentication?: string | undefined;
  /** The W3C trace context of the request that started it; absent where that was part of no trace. */
  readonly traceParent?: string | undefined;
  /** Whose its deployment was when it was asked for; absent for nobody's. */
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
  /** Of the ended task's events and other outputs, in their store; absent where an older version did not count. */
  readonly outputSizeBytes?: number | undefined;
}

export const MAX_RESULT_LENGTH = 2_000;

export function hasEnded(task: Task): boolean {
  return task.endedAtMs !== null;
}

export type NewTask = Pick<
  Task,
  "taskId" | "description" | "queue" | "user" | "deployment" | "contextId" | "teams" | "traceParent" | "cpiShare"
> & {
  readonly job: Job;
};

export function newTask(wanted: NewTask, nowMs: number): Task {
  return {
    ...wanted,
    type: wanted.job.type,
    state: "queued",
    stop: null,
    result: "",
    attempts: 0,
    createdAtMs: nowMs,
    startedAtMs: null,
    endedAtMs: null,
  };
}

/**
 * What becomes of a task that is restored from a backup: if it had not ended, nobody knows what has been done of it since,
 * so it is held until an operator resumes or cancels it.
 */
export function restored(task: Task): Task {
  return hasEnded(task) ? task : { ...task, state: "held" };
}

export function resume(task: Task): Task {
  return { ...task, state: nextState(task, "resume", null), stop: null };
}

/**
 * What moves a task. A worker takes it, or puts it back because it waits for a lock; somebody stops it; its job
 * succeeds, fails, or has heeded the stop.
 */
type TaskEvent = "resume" | "take" | "put_back" | "stop" | "succeed" | "fail" | "heed";

/** "stopped" stands for the end that the stop names. */
const TRANSITIONS: Readonly<Record<TaskEvent, Partial<Record<TaskState, TaskState | "stopped">>>> = {
  resume: { held: "queued" },
  // Processing already: the director that took it died. It is run again.
  take: { queued: "processing", processing: "processing" },
  put_back: { queued: "queued", processing: "queued" },
  stop: { queued: "stopped", held: "stopped", processing: "cancelling", cancelling: "cancelling" },
  // A job that got through although it was asked to stop has succeeded, and says so.
  succeed: { queued: "done", processing: "done", cancelling: "done" },
  fail: { queued: "error", processing: "error", cancelling: "error" },
  heed: { cancelling: "stopped" },
};

function nextState(task: Task, event: TaskEvent, stop: Stop | null): TaskState {
  const next = TRANSITIONS[event][task.state];
  if (next === undefined) {
    throw new InvalidStateError(`task ${task.taskId} is ${task.state}: it cannot ${event.replace("_", " ")} any more`, {
      about: { task_id: String(task.taskId) },
    });
  }
  return next === "stopped" ? (stop?.as ?? "cancelled") : next;
}

/** `again`: this director had it already and had put it back, so that it is no further attempt. */
export function take(task: Task, nowMs: number, { again }: { readonly again: boolean }): Task {
  return {
    ...task,
    state: nextState(task, "take", null),
    attempts: again ? task.attempts : task.attempts + 1,
    startedAtMs: task.startedAtMs ?? nowMs,
  };
}

export function putBack(task: Task): Task {
  return { ...task, state: nextState(task, "put_back", null) };
}

/** The first reason to stop stands. Ends a task that nobody works on. */
export function requestStop(task: Task, stop: Stop, nowMs: number): Task {
  const kept = task.stop ?? stop;
  const state = nextState(task, "stop", kept);
  return state === "cancelling"
    ? { ...task, state, stop: kept }
    : ended({ ...task, stop: kept }, state, kept.why, nowMs);
}

/** What it is to do, known better. */
export function redirected(task: Task, job: Job): Task {
  return { ...task, type: job.type, job };
}

export type TaskEnd =
  | { readonly event: "succeed"; readonly result: string }
  | {
      readonly event: "fail";
      readonly result: string;
      readonly failure?: TaskFailure | undefined;
      readonly code?: number | undefined;
    }
  /** With what is not known of its last act. */
  | { readonly event: "heed"; readonly unknown?: string };

export function end(task: Task, how: TaskEnd, nowMs: number): Task {
  const state = nextState(task, how.event, task.stop);
  const failure = how.event === "fail" ? how.failure : undefined;
  const result = how.event === "heed" ? heedText(task, how.unknown) : how.result;
  return ended({ ...task, ...(failure && { failure }) }, state, result, nowMs);
}

function heedText({ stop }: Task, unknown: string | undefined): string {
  return [stop?.why ?? "task cancelled", ...(unknown === undefined ? [] : [unknown])].join("; ");
}

function ended(task: Task, state: TaskState, result: string, nowMs: number): Task {
  const text = result.length > MAX_RESULT_LENGTH ? `${result.slice(0, MAX_RESULT_LENGTH)}...` : result;
  return { ...task, state, result: text, job: null, endedAtMs: nowMs };
}
