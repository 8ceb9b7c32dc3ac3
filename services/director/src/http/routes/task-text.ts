/**
 * The format of tasks and their events for BOSH's clients. Equal log lines always yield equal texts, so that bytes
 * already served never change.
 */
import { TaskState as WireState, type Task as WireTask } from "@diskmesh/api/director";
import { visible } from "@diskmesh/domain";
import { BadRequestError } from "../http-error.js";

/** BOSH truncates results to this length. */
const MAX_RESULT_LENGTH = 128;

const STATES: Readonly<Record<string, string>> = {
  [WireState.QUEUED]: "queued",
  // Reported as queued, because clients stop waiting for a task in an unknown state.
  [WireState.HELD]: "queued",
  [WireState.PROCESSING]: "processing",
  [WireState.CANCELLING]: "cancelling",
  [WireState.DONE]: "done",
  [WireState.ERROR]: "error",
  [WireState.CANCELLED]: "cancelled",
  [WireState.TIMEOUT]: "timeout",
};

/** Parses state names. "queued" includes held tasks, because clients do not know the held state. */
export function statesNamed(names: readonly string[]): WireState[] {
  return names.flatMap((name) => {
    const [known] = Object.entries(STATES).find(([, each]) => each === name) ?? [];
    if (known === undefined) throw new BadRequestError("the request names an unknown task state");
    return name === "queued" ? [WireState.QUEUED, WireState.HELD] : [known as WireState];
  });
}

/** Returns a task in BOSH's format. A live task has neither a result nor an end time. */
export function taskObject({
  taskId,
  state,
  description,
  startTime,
  endTime,
  result,
  user,
  deployment,
  contextId,
}: WireTask): object {
  return {
    id: taskId,
    state: STATES[state] ?? "queued",
    description,
    timestamp: secondsOf(endTime),
    started_at: secondsOf(startTime),
    result: endTime === undefined ? null : visible(result).slice(0, MAX_RESULT_LENGTH),
    user,
    deployment: deployment === "" ? null : deployment,
    context_id: contextId,
  };
}

function secondsOf(date: Date | undefined): number | null {
  return date === undefined ? null : Math.floor(date.getTime() / 1_000);
}
