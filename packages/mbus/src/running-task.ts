import { isJsonObject } from "@diskmesh/domain";

/** Answer of an agent to a long request that still runs; the director polls with the id. */
export interface RunningTask {
  readonly agent_task_id: string;
  readonly state: string;
}

/** Returns true for an object with both keys and no `value`. Anything else is the result of the task. */
export function isRunningTask(value: unknown): value is RunningTask {
  return isJsonObject(value) && !("value" in value) && typeof value.agent_task_id === "string" && "state" in value;
}

/** Both ends parse these error texts, because the protocol has no error codes. */
export const unknownMethodText = (method: string): string => `unknown message ${method}`;
// BOSH's agents use this text for disks, too.
export const UNKNOWN_THING_TEXT = "could not be found";
export const unknownTaskText = (taskId: string): string => `Task with id ${taskId} ${UNKNOWN_THING_TEXT}`;
