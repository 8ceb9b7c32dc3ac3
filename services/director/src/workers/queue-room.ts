import { ResourceExhaustedError } from "@diskmesh/domain";
import type { Change } from "@diskmesh/tablet";
import type { DirectorTables } from "../model/schema.js";
import { hasEnded, type Job, type Task, type TaskQueue } from "../model/task.js";
import { mayJoin, placesPerLogin, shareNameOf } from "../model/worker-shares.js";

export interface QueueRoomOptions {
  /** Most tasks of each queue that have not ended. */
  readonly queueLengths: Readonly<Record<TaskQueue, number>>;
  /** The CPIs that a task may have to ask, by what is recorded now. */
  readonly cpisOf: (job: Job, tables: DirectorTables) => readonly string[];
}

/** Decides whether a queue takes another task, so that those that wait for a CPI that hangs leave room for others. */
export class QueueRoom {
  readonly #options: QueueRoomOptions;
  /** Of each task that has not ended: what it had to do with when it came, and who asked for it. */
  readonly #sharesOf = new Map<number, readonly string[]>();
  readonly #lengths = new Map<string, number>();
  #knowsEarlier = false;

  constructor(options: QueueRoomOptions) {
    this.#options = options;
  }

  /** Throws when there is no room. Otherwise returns what to call once the task has its id. */
  admit(job: Job, queue: TaskQueue, user: string, tables: DirectorTables): (taskId: number) => void {
    if (!this.#knowsEarlier) this.#noteEarlier(tables);
    const length = tables.tasks.count("liveByQueue", queue);
    const limit = this.#options.queueLengths[queue];
    const later = "(queues.*.maxTasks): try again later";
    if (length >= limit)
      throw new ResourceExhaustedError(
        `${limit} tasks of the queue ${queue} have not ended yet, which is the limit ${later}`,
      );
    const share = this.#shareFor(job, queue, tables);
    const ofShare = this.#lengths.get(share) ?? 0;
    if (!mayJoin({ ofShare, length, limit }))
      throw new ResourceExhaustedError(
        `${ofShare} of the ${length} tasks of the queue ${queue} that have not ended have to do with the same CPIs, and the rest of its ${limit} places is kept for others ${later}, or see by ListCpis of the dispatcher what is wrong with these`,
      );
    const login = loginShare(queue, user);
    const ofLogin = this.#lengths.get(login) ?? 0;
    // What a method does, and for how long, is for its vendor to say: one login could fill the queue with it.
    if (queue === "vendor_methods" && ofLogin >= placesPerLogin(limit))
      throw new ResourceExhaustedError(
        `${ofLogin} tasks of the queue ${queue} that have not ended are of ${user}, and the rest of its ${limit} places is kept for others ${later}`,
      );
    return (taskId) => this.#note(taskId, [share, login]);
  }

  /** Hears what became of tasks. */
  onChanges(changes: readonly Change[]): void {
    for (const { table, document } of changes)
      if (table === "tasks" && document !== null && hasEnded(document as Task)) this.#forget((document as Task).taskId);
  }

  #noteEarlier(tables: DirectorTables): void {
    this.#knowsEarlier = true;
    for (const { taskId, job, queue, user } of tables.tasks.by("byEnd", "live"))
      if (job !== null) this.#note(taskId, [this.#shareFor(job, queue, tables), loginShare(queue, user)]);
  }

  #shareFor(job: Job, queue: TaskQueue, tables: DirectorTables): string {
    return `${queue} ${shareNameOf(this.#options.cpisOf(job, tables))}`;
  }

  #note(taskId: number, shares: readonly string[]): void {
    this.#sharesOf.set(taskId, shares);
    for (const share of shares) this.#lengths.set(share, (this.#lengths.get(share) ?? 0) + 1);
  }

  #forget(taskId: number): void {
    for (const share of this.#sharesOf.get(taskId) ?? []) {
      const length = (this.#lengths.get(share) ?? 0) - 1;
      if (length > 0) this.#lengths.set(share, length);
      else this.#lengths.delete(share);
    }
    this.#sharesOf.delete(taskId);
  }
}

const loginShare = (queue: TaskQueue, user: string): string => `${queue} of ${user}`;
