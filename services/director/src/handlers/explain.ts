import { type ExplainRequest, type ExplainResponse, SubjectKind } from "@diskmesh/api/common";
import { InvalidArgumentError, NotFoundError, NotImplementedError } from "@diskmesh/domain";
import { explanation } from "@diskmesh/tablet-admin";
import type { Context } from "../context.js";
import { causesOf, type Known, lockName, openSteps, type Subject } from "../model/explain.js";
import { taskKey } from "../model/schema.js";
import type { TaskEvent } from "../model/task-event.js";
import { parseTaskId } from "./parse.js";

/** Of the last so many events of a task it is told which steps have not ended. */
const EVENTS_SEEN = 1_000;
/** More than anybody reads of. */
const MAX_TASKS = 50;

export async function explain(context: Context, request: ExplainRequest): Promise<ExplainResponse> {
  const subject = subjectOf(request.subject);
  const locks = context.locks.list();
  const summary = subject.kind === "TASK" ? await taskSummary(context, subject.name) : lockSummary(locks, subject.name);
  const asked = new Set<number>();
  const explained = (steps: ReadonlyMap<number, readonly TaskEvent[]>): Promise<ExplainResponse> =>
    context.tablet.read((tables) => {
      const known: Known = {
        taskOf: (taskId) => tables.tasks.get(taskKey(taskId)),
        locks,
        openSteps: (taskId) => {
          asked.add(taskId);
          return steps.get(taskId) ?? [];
        },
        liveIn: (queue) => tables.tasks.count("liveByQueue", queue),
      };
      return explanation(summary, subject, (each) => causesOf(each, known));
    });
  // Of few tasks the steps are asked for, and reading them takes a file each: the chain says first which.
  await explained(new Map());
  const steps = new Map<number, readonly TaskEvent[]>();
  for (const taskId of [...asked].slice(0, MAX_TASKS)) steps.set(taskId, await stepsOf(context, taskId));
  return explained(steps);
}

function subjectOf(subject: ExplainRequest["subject"]): Subject {
  const { kind = SubjectKind.UNSPECIFIED, name = "" } = subject ?? {};
  if (kind === SubjectKind.TASK) return { kind: "TASK", name: String(parseTaskId(Number(name))) };
  if (kind !== SubjectKind.LOCK) throw new NotImplementedError("a director explains tasks and locks");
  if (/^[a-z]{1,32}:.{1,512}$/.test(name)) return { kind: "LOCK", name };
  throw new InvalidArgumentError("the name of a lock is TYPE:RESOURCE, as ListLocks has them", {
    about: { field: "subject.name" },
  });
}

async function taskSummary({ tasks }: Context, name: string): Promise<string> {
  const { taskId, description, state, result } = await tasks.get(Number(name));
  return `task ${taskId} (${description}) is ${state}${result === "" ? "" : `: ${result}`}`;
}

function lockSummary(locks: Parameters<typeof lockName>[0][], name: string): string {
  if (locks.some((lock) => lockName(lock) === name)) return `lock ${name} is held`;
  throw new NotFoundError("nobody holds such a lock", { about: { lock: name } });
}

async function stepsOf({ tasks, taskLog }: Context, taskId: number): Promise<TaskEvent[]> {
  const task = await tasks.get(taskId).catch((error: unknown) => {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  });
  if (task === undefined) return [];
  const count = taskLog.eventCount(taskId) ?? 0;
  return openSteps(await taskLog.read(task, Math.max(0, count - EVENTS_SEEN), EVENTS_SEEN));
}
