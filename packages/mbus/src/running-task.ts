/** What an agent answers while it works on a long request, and how the director asks again. */
export interface RunningTask {
  readonly agent_task_id: string;
  readonly state: string;
}

/** An object with both keys and nothing called value means that the task still runs; anything else is its result. */
export function isRunningTask(value: unknown): value is RunningTask {
  return (
    typeof value === "object" &&
    value !== null &&
    !("value" in value) &&
    "agent_task_id" in value &&
    typeof value.agent_task_id === "string" &&
    "state" in value
  );
}

/** The protocol has only texts to tell errors apart; these are the ones that both ends rely on. */
export const unknownMethodText = (method: string): string => `unknown message ${method}`;
// In what BOSH's agents say of disks, too.
export const UNKNOWN_THING_TEXT = "could not be found";
export const unknownTaskText = (taskId: string): string => `Task with id ${taskId} ${UNKNOWN_THING_TEXT}`;
