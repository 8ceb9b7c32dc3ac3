/**
 * How tasks and their events look to BOSH's clients: what else there is of them stays as it is. Equal lines of the log
 * always give equal texts, so that a byte that was given out never changes.
 */
import { TaskState as WireState, type Task as WireTask } from "@diskmesh/api/director";
import { decodeEvent, encodeEvent } from "../../tasks/task-event.js";
import { BadRequestError } from "../http-error.js";

/** Longer results are cut, as BOSH does. */
const MAX_RESULT_LENGTH = 128;

const STATES: Readonly<Record<string, string>> = {
  [WireState.QUEUED]: "queued",
  // A word that clients do not know ends their waiting for it.
  [WireState.HELD]: "queued",
  [WireState.PROCESSING]: "processing",
  [WireState.CANCELLING]: "cancelling",
  [WireState.DONE]: "done",
  [WireState.ERROR]: "error",
  [WireState.CANCELLED]: "cancelled",
  [WireState.TIMEOUT]: "timeout",
};

/** Clients know no held tasks; who asks for those that wait is to see them. */
export function statesNamed(names: readonly string[]): WireState[] {
  return names.flatMap((name) => {
    const [known] = Object.entries(STATES).find(([, each]) => each === name) ?? [];
    if (known === undefined) throw new BadRequestError("a state of tasks that was asked for is not known");
    return name === "queued" ? [WireState.QUEUED, WireState.HELD] : [known as WireState];
  });
}

/** A task as clients read it: what has not ended has no result, and no time of a last change. */
export function taskObject({
  taskId,
  state,
  description,
  startedAt,
  endedAt,
  result,
  user,
  deployment,
  contextId,
}: WireTask): object {
  return {
    id: taskId,
    state: STATES[state] ?? "queued",
    description,
    timestamp: secondsOf(endedAt),
    started_at: secondsOf(startedAt),
    result: endedAt === undefined ? null : result.slice(0, MAX_RESULT_LENGTH),
    user,
    deployment: deployment === "" ? null : deployment,
    context_id: contextId,
  };
}

function secondsOf(date: Date | undefined): number | null {
  return date === undefined ? null : Math.floor(date.getTime() / 1_000);
}

/** A line of the event log as BOSH has it; earlier versions wrote others. */
export function eventLine(stored: string): string {
  return stored.startsWith('{"time":') ? stored : encodeEvent(decodeEvent(stored));
}
