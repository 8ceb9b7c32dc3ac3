/** One line of a task's event log. */
export interface TaskEvent {
  readonly timeMs: number;
  /** The step's group, e.g. "Attaching disk". */
  readonly stage: string;
  /** The step, e.g. the disk's name. */
  readonly task: string;
  readonly state: "started" | "finished" | "failed";
  readonly message: string;
}

export const MAX_MESSAGE_LENGTH = 4_000;

export function encodeEvent(event: TaskEvent): string {
  const { message } = event;
  return JSON.stringify(
    message.length > MAX_MESSAGE_LENGTH ? { ...event, message: `${message.slice(0, MAX_MESSAGE_LENGTH)}...` } : event,
  );
}

export function decodeEvent(line: string): TaskEvent {
  return JSON.parse(line) as TaskEvent;
}
