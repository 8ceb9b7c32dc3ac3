import { setTimeout } from "node:timers/promises";
import { type DynamicDisk, StepState, type Task, type TaskEvent, TaskState } from "@diskmesh/api/director";
import { UnavailableError } from "@diskmesh/domain";
import { EndedWith, EXIT_CODES } from "../output/exit-codes.js";
import { short, timeText } from "../output/output.js";
import type { Action, ActionCall } from "./action.js";

const PAUSE_MS = 1_000;

interface Started {
  readonly task?: Task | undefined;
  /** The disk of the task as it was when the task was started. */
  readonly disk?: DynamicDisk | undefined;
}

interface TaskFacts extends Omit<Action, "run"> {
  /** Starts the task without waiting for it. */
  readonly start: (call: ActionCall) => Promise<Started>;
  /** Returns what to type next once the task is done; empty for nothing. */
  readonly next?: (call: ActionCall, disk: DynamicDisk | undefined) => string;
  /** Returns what to type once the task has failed; empty for nothing. */
  readonly afterFailure?: (call: ActionCall, disk: DynamicDisk | undefined) => string;
}

/** Returns an action that starts a task and follows it; with --no-wait it only prints the task's number. */
export function taskAction({
  start,
  next = () => "",
  afterFailure = () => "",
  options = [],
  ...facts
}: TaskFacts): Action {
  return {
    ...facts,
    options: [...options, ["--no-wait", "start the task and do not wait for it"]],
    run: async (call) => {
      const { task, disk } = await start(call);
      try {
        await followTask(call, task);
      } catch (error) {
        const instead = error instanceof EndedWith ? afterFailure(call, disk) : "";
        if (instead !== "") call.output.say(instead);
        throw error;
      }
      const then = call.options.wait === false ? "" : next(call, disk);
      if (then !== "") call.output.say(then);
    },
  };
}

/** Prints a task's events until the task has ended; with --no-wait only prints the task's number. */
export async function followTask(call: ActionCall, task: Task | undefined): Promise<void> {
  if (task === undefined) throw new TypeError("the answer has no task");
  const { output, options } = call;
  if (options.wait === false) {
    output.answer(task, `task ${task.taskId}`);
    return;
  }
  const ended = await tellUntilEnd(call, task);
  answerEnd(call, ended);
  if (ended.state !== TaskState.DONE) throw endedBadly(ended);
}

/** Follows a task that is part of an action. Prints the task's answer only when the task failed. */
export async function followToDone(call: ActionCall, task: Task | undefined): Promise<Task> {
  if (task === undefined) throw new TypeError("the answer has no task");
  const ended = await tellUntilEnd(call, task);
  if (ended.state === TaskState.DONE) return ended;
  answerEnd(call, ended);
  throw endedBadly(ended);
}

function tellUntilEnd(call: ActionCall, { taskId, description }: Task): Promise<Task> {
  call.output.say(`task ${taskId}: ${description}`);
  return endOf(call, taskId);
}

function answerEnd({ output }: ActionCall, ended: Task): void {
  output.answer(ended, `${short(ended.state)}${ended.result === "" ? "" : `: ${ended.result}`}`);
}

function endedBadly({ state }: Task): EndedWith {
  return new EndedWith(state === TaskState.HELD ? EXIT_CODES.notYet : EXIT_CODES.failed);
}

/** Follows a task across leader changes: a stream that ends early is resumed at the next event. */
async function endOf({ mesh, output, signal }: ActionCall, taskId: number): Promise<Task> {
  let fromIndex = 0;
  for (;;) {
    try {
      for await (const { update } of mesh.tasks.watchTask({ taskId, fromIndex }, { signal })) {
        if (update?.$case === "ended") return update.value;
        if (update?.$case !== "event") continue;
        fromIndex = update.value.index + 1;
        output.say(eventText(update.value));
      }
    } catch (error) {
      if (!(error instanceof UnavailableError) || signal.aborted) throw error;
      output.say(`${error.message}; asked again`);
    }
    // Pauses, because streams end early when a director stops and no director may lead until the lease expires.
    await setTimeout(PAUSE_MS, undefined, { signal });
  }
}

function eventText({ eventTime, stage, task, state, message, percent }: TaskEvent): string {
  const what = [stage, task].filter(Boolean).join(": ");
  return `${timeText(eventTime)}  ${what} ${state === StepState.IN_PROGRESS ? `${percent} %` : short(state).toLowerCase()}${message === "" ? "" : ` (${message})`}`;
}
