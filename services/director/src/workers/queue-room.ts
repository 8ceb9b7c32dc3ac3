import { ResourceExhaustedError } from "@diskmesh/domain";
import type { Change } from "@diskmesh/tablet";
import type { DirectorTables } from "../model/schema.js";
import { hasEnded, type Job, type Task, type TaskQueue } from "../model/task.js";
import { mayJoin, shareNameOf } from "../model/worker-shares.js";

export interface QueueRoomOptions {
  /** Most tasks of each queue that have not ended. */
  readonly queueLengths: Readonly<Record<TaskQueue, number>>;
  /** The CPIs that a task may have to ask, by what is recorded now. */
  readonly cpisOf: (job: Job, tables: DirectorTables) => readonly string[];
}

/** Decides whether a queue takes another task, so that those that wait for a CPI that hangs leave room for others. */
export class QueueRoom {
  readonly #options: QueueRoomOptions;
  /** Tasks that have not ended, by what they had to do with when they came. */
  readonly #shareOf = new Map<number, string>();
  readonly #lengths = new Map<string, number>();
  #knowsEarlier = false;

  constructor(options: QueueRoomOptions) {
    this.#options = options;
  }

  /** Throws when there is no room. Otherwise returns what to call once the task has its id. */
  admit(job: Job, queue: TaskQueue, tables: DirectorTables): (taskId: number) => void {
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
    return (taskId) => this.#note(taskId, share);
  }

  /** Hears what became of tasks. */
  onChanges(changes: readonly Change[]): void {
    for (const { table, document } of changes)
      if (table === "tasks" && document !== null && hasEnded(document as Task)) this.#forget((document as Task).taskId);
  }

  #noteEarlier(tables: DirectorTables): void {
    this.#knowsEarlier = true;
    for (const { taskId, job, queue } of tables.tasks.by("byEnd", "live"))
      if (job !== null) this.#note(taskId, this.#shareFor(job, queue, tables));
  }

  #shareFor(job: Job, queue: TaskQueue, tables: DirectorTables): string {
    return `${queue} ${shareNameOf(this.#options.cpisOf(job, tables))}`;
  }

  #note(taskId: number, share: string): void {
    this.#shareOf.set(taskId, share);
    this.#lengths.set(share, (this.#lengths.get(share) ?? 0) + 1);
  }

  #forget(taskId: number): void {
    const share = this.#shareOf.get(taskId);
    if (share === undefined) return;
    this.#shareOf.delete(taskId);
    const length = (this.#lengths.get(share) ?? 0) - 1;
    if (length > 0) this.#lengths.set(share, length);
    else this.#lengths.delete(share);
  }
}
