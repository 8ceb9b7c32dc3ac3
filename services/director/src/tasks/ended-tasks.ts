import type { EventLog, LogRecord } from "@diskmesh/tablet";
import { taskKey } from "../store/schema.js";
import { ENDED_STATES, hasEnded, type Task, type TaskState } from "../store/task.js";

const ALL = "all/";
const DROPPING = "dropping/";

type RecordLog = Pick<EventLog, "addRecords" | "readRecords" | "removeRecords">;

export interface EndedTaskFilter {
  /** States of ended tasks; empty for all. */
  readonly states: ReadonlySet<TaskState>;
  readonly deployment: string | undefined;
}

/**
 * Ended tasks in the event log. Each task is stored once under every list prefix by which clients can query tasks.
 * Records are written once and never changed.
 */
export class EndedTasks {
  readonly #log: RecordLog;

  constructor(eventLog: RecordLog) {
    this.#log = eventLog;
  }

  async get(taskId: number): Promise<Task | undefined> {
    // The range holds this key alone, so that nothing is read for a task that the log lacks.
    const [prefix, after] = [ALL + taskKey(taskId), ALL + taskKey(taskId + 1)];
    const [found] = await this.#log.readRecords({ prefix, after, limit: 1 });
    return found && taskOf(found);
  }

  /** Returns tasks newest first, after the given key. */
  async page(
    { states, deployment }: EndedTaskFilter,
    options: { readonly after: string; readonly limit: number },
  ): Promise<Task[]> {
    const { after, limit } = options;
    const prefixes =
      states.size === 0 && deployment === undefined
        ? [ALL]
        : ENDED_STATES.filter((state) => states.size === 0 || states.has(state)).map((state) =>
            prefixOf(state, deployment),
          );
    const pages = await Promise.all(
      prefixes.map((prefix) => this.#log.readRecords({ prefix, after: prefix + after, limit })),
    );
    const tasks = pages.flat().map(taskOf);
    return (pages.length === 1 ? tasks : tasks.sort((a, b) => b.taskId - a.taskId)).slice(0, limit);
  }

  /**
   * Resolves when every task can be found in the log. `added` are the tasks that the log did not hold yet. `replaced`
   * are different tasks under the same ids, recorded before the tablet was restored from a backup; they are removed.
   */
  async add(tasks: readonly Task[]): Promise<{ readonly added: readonly Task[]; readonly replaced: readonly Task[] }> {
    const earlier = await Promise.all(tasks.map(({ taskId }) => this.get(taskId)));
    const added = tasks.filter((task, i) => earlier[i] === undefined || textOf(earlier[i]) !== textOf(task));
    const ids = new Set(added.map(({ taskId }) => taskId));
    const replaced = earlier.filter((former): former is Task => former !== undefined && ids.has(former.taskId));
    if (replaced.length > 0) await this.#log.removeRecords(replaced.flatMap(keysOf));
    await this.#log.addRecords(tasks.flatMap((task) => keysOf(task).map((key) => ({ key, text: textOf(task) }))));
    return { added, replaced };
  }

  oldest(limit: number): Promise<Task[]> {
    return this.#log.readRecords({ prefix: ALL, limit, descending: true }).then((records) => records.map(taskOf));
  }

  /**
   * Deletes tasks, and their outputs by `dropOutputs`. The tasks leave the lists first, so no reader finds a task whose
   * outputs are being deleted.
   */
  async drop(tasks: readonly Task[], dropOutputs: (taskId: number) => Promise<void>): Promise<void> {
    const dropping = (task: Task): string => DROPPING + taskKey(task.taskId);
    await this.#log.addRecords(tasks.map((task) => ({ key: dropping(task), text: textOf(task) })));
    await this.#log.removeRecords(tasks.flatMap(keysOf));
    await Promise.all(tasks.map(({ taskId }) => dropOutputs(taskId)));
    await this.#log.removeRecords(tasks.map(dropping));
  }

  /** Returns the tasks whose deletion was cut short when the process ended. */
  async halfDropped(limit: number): Promise<Task[]> {
    return (await this.#log.readRecords({ prefix: DROPPING, limit })).map(taskOf);
  }
}

/**
 * The name's length keeps deployment `a` apart from deployment `a/b`, whose keys would otherwise begin with the prefix
 * of `a`.
 */
function prefixOf(state: TaskState, deployment: string | undefined): string {
  return deployment === undefined ? `state/${state}/` : `deployment/${state}/${deployment.length}/${deployment}/`;
}

function keysOf(task: Task): string[] {
  const { state, deployment } = task;
  const prefixes = [ALL, prefixOf(state, undefined), ...(deployment === "" ? [] : [prefixOf(state, deployment)])];
  return prefixes.map((prefix) => prefix + taskKey(task.taskId));
}

function textOf(task: Task): string {
  if (!hasEnded(task)) throw new TypeError(`task ${task.taskId} has not ended`);
  return JSON.stringify(task);
}

function taskOf({ text }: LogRecord): Task {
  return JSON.parse(text) as Task;
}
