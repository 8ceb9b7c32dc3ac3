import type { Job, Task } from "./task.js";
import { formatMethod } from "./vendor-method.js";

/** One line of what was done, by whom: as it begins, and, naming that one as its parent, as it ends. */
export interface DirectorEvent {
  readonly timeMs: number;
  /** The event that this one ends, or is a part of; 0 for none. */
  readonly parentId: number;
  readonly user: string;
  /** E.g. "create". */
  readonly action: string;
  /** E.g. "vm". */
  readonly objectType: string;
  /** The thing's id; empty while it has none. */
  readonly objectName: string;
  /** 0 for none. */
  readonly taskId: number;
  readonly deployment: string;
  /** As group/instance_id. */
  readonly instance: string;
  /** What else there is to say. */
  readonly context: Readonly<Record<string, string>>;
  /** Of an end: why it failed. */
  readonly error: string;
}

export interface NumberedEvent extends DirectorEvent {
  /** Counts up from 1. */
  readonly eventId: number;
}

/** What is done to what, by BOSH's names where it has one. */
export type Deed = Pick<DirectorEvent, "action" | "objectType" | "objectName">;

const MAX_ERROR_LENGTH = 1_000;

/** Without what is empty. `parentBefore`: so many events before this one stands its parent, where that has no id yet. */
export function encodeDirectorEvent(event: DirectorEvent, parentBefore = 0): string {
  const error = event.error.length > MAX_ERROR_LENGTH ? `${event.error.slice(0, MAX_ERROR_LENGTH)}...` : event.error;
  const line: Record<string, unknown> = {};
  for (const [name, value] of Object.entries({ ...event, error, parentBefore }))
    if (value !== "" && value !== 0) line[name] = value;
  return JSON.stringify(line);
}

const NOTHING: DirectorEvent = {
  timeMs: 0,
  parentId: 0,
  user: "",
  action: "",
  objectType: "",
  objectName: "",
  taskId: 0,
  deployment: "",
  instance: "",
  context: {},
  error: "",
};

export function decodeDirectorEvent(line: string, eventId: number): NumberedEvent {
  const { parentBefore = 0, ...event } = JSON.parse(line) as Partial<DirectorEvent> & { parentBefore?: number };
  const parentId = parentBefore === 0 ? 0 : eventId - parentBefore;
  return { ...NOTHING, parentId, ...event, eventId };
}

/** Lists are asked for so often that they would push out what was done. */
export function isTold({ type }: Pick<Task, "type">): boolean {
  return type !== "retrieve_vm_stats";
}

/** What a task does as a whole. */
export function deedOf({ type, job, deployment, taskId }: Task): Deed {
  const ofDeployment = { objectType: "deployment", objectName: deployment };
  if (type === "update_deployment" || type === "update_instances") return { action: "update", ...ofDeployment };
  if (type === "delete_deployment") return { action: "delete", ...ofDeployment };
  const named = namedBy(job);
  if (named !== undefined) return { action: type.split("_")[0] ?? type, ...named };
  return { action: type, ...(deployment === "" ? { objectType: "task", objectName: String(taskId) } : ofDeployment) };
}

function namedBy(job: Job | null): Omit<Deed, "action"> | undefined {
  if (job === null) return undefined;
  if (job.type === "call_vendor_method") return { objectType: "vendor_method", objectName: formatMethod(job) };
  if ("diskName" in job) return { objectType: "dynamic_disk", objectName: job.diskName };
  if ("diskCid" in job) return { objectType: "disk", objectName: job.diskCid };
  if ("location" in job) return { objectType: "stemcell", objectName: new URL(job.location).host };
  if ("version" in job) return { objectType: "stemcell", objectName: `${job.name}/${job.version}` };
  return undefined;
}
