import type { DirectorEvent, NumberedEvent } from "../store/director-event.js";
import type { Job, Task } from "../store/task.js";

/** An action and its object, by BOSH's names where it has one. */
export type Deed = Pick<DirectorEvent, "action" | "objectType" | "objectName">;

const MAX_ERROR_LENGTH = 1_000;

/** Fields of a stored line beside the event itself. */
interface Beside {
  /** So many events before this one stands its parent, where that has no id yet. */
  readonly parentBefore?: number;
  /** The note in a transaction that the event comes from; finds the line again. */
  readonly noteId?: number;
}

/** Without what is empty. */
export function encodeDirectorEvent(event: DirectorEvent, beside: Beside = {}): string {
  const error = event.error.length > MAX_ERROR_LENGTH ? `${event.error.slice(0, MAX_ERROR_LENGTH)}...` : event.error;
  const line: Record<string, unknown> = {};
  for (const [name, value] of Object.entries({ ...event, error, ...beside }))
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
  answer: "",
  requestId: "",
  traceId: "",
  authentication: "",
};

/** The event that a line tells of, complete. */
export function completeEvent(event: Partial<DirectorEvent>): DirectorEvent {
  return { ...NOTHING, ...event };
}

/** 0 for none. */
export function noteIdOf(line: string): number {
  return (JSON.parse(line) as Beside).noteId ?? 0;
}

export function decodeDirectorEvent(line: string, eventId: number): NumberedEvent {
  const { parentBefore = 0, noteId: _, ...event } = JSON.parse(line) as Partial<DirectorEvent> & Beside;
  const parentId = parentBefore === 0 ? 0 : eventId - parentBefore;
  return { ...NOTHING, parentId, ...event, eventId };
}

/** Lists are asked for so often that they would push out what was done. */
export function isTold({ type }: Pick<Task, "type">): boolean {
  return type !== "retrieve_vm_stats";
}

/** Returns the action of a task as a whole. */
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

/** Returns `driver.method` with its node, as events and tasks name it. */
export function formatMethod(called: {
  readonly nodeId: string;
  readonly driver: string;
  readonly method: string;
}): string {
  const name = `${called.driver}.${called.method}`;
  return called.nodeId === "" ? name : `${name} on node ${called.nodeId}`;
}
