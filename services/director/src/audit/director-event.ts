import type { DirectorEvent, NumberedEvent } from "../store/director-event.js";
import type { Job, Task } from "../store/task.js";

/** An action and its object, with BOSH's names where BOSH has them. */
export type Deed = Pick<DirectorEvent, "action" | "objectType" | "objectName">;

const MAX_ERROR_LENGTH = 1_000;

/** Fields of a stored line in addition to the event. */
interface Beside {
  /**
   * Distance to the parent event, in events before this event. Set when the parent had no id yet at the time of
   * writing.
   */
  readonly parentBefore?: number;
  /** Id of the transaction's note from which the event was made. Identifies the line after a restart. */
  readonly noteId?: number;
}

/** Returns the event as a line of JSON without empty fields. */
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

/** Returns the event with defaults for absent fields. */
export function completeEvent(event: Partial<DirectorEvent>): DirectorEvent {
  return { ...NOTHING, ...event };
}

/** Returns the line's note id; 0 for none. */
export function noteIdOf(line: string): number {
  return (JSON.parse(line) as Beside).noteId ?? 0;
}

export function decodeDirectorEvent(line: string, eventId: number): NumberedEvent {
  const { parentBefore = 0, noteId: _, ...event } = JSON.parse(line) as Partial<DirectorEvent> & Beside;
  const parentId = parentBefore === 0 ? 0 : eventId - parentBefore;
  return { ...NOTHING, parentId, ...event, eventId };
}

/**
 * Returns false for tasks that are not audited: clients list VM stats so often that the events would displace all
 * others.
 */
export function isAudited({ type }: Pick<Task, "type">): boolean {
  return type !== "retrieve_vm_stats";
}

/** Returns the action and object of a whole task. */
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

/** Returns `driver.method` with its node, the format of events and tasks. */
export function formatMethod(called: {
  readonly nodeId: string;
  readonly driver: string;
  readonly method: string;
}): string {
  const name = `${called.driver}.${called.method}`;
  return called.nodeId === "" ? name : `${name} on node ${called.nodeId}`;
}
