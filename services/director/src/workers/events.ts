import { type Logger, messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Change, EventLog } from "@diskmesh/tablet";
import {
  type Deed,
  type DirectorEvent,
  decodeDirectorEvent,
  deedOf,
  encodeDirectorEvent,
  isTold,
  type NumberedEvent,
} from "../model/director-event.js";
import { hasEnded, type Task } from "../model/task.js";
import type { DirectorTablet } from "../stored-schema.js";
import { Gathering } from "./gathering.js";

export interface EventsOptions {
  readonly eventLog: Pick<EventLog, "append" | "read" | "bounds" | "trim">;
  readonly tablet: DirectorTablet;
  /** Beyond it the oldest are forgotten. */
  readonly maxCount: number;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Pending {
  readonly line: string;
  readonly resolve: (eventId: number) => void;
}

/** Something that was begun, whose end is to be told. */
export interface Begun {
  end(outcome: { readonly objectName?: string; readonly error?: string }): void;
}

/** What an event tells of who and where. */
export type Origin = Partial<Pick<DirectorEvent, "user" | "taskId" | "deployment" | "instance" | "context">>;

const STREAM = "events";
const BATCH = 1_000;
const READ_AT_ONCE = 500;
/** So long an end may wait for what is written next: a commit for each would cost a short task as much as its work. */
const GATHER_MS = 100;
/** Events that wait for the storage; beyond it some are lost, not the director its memory. */
const MAX_PENDING = 10_000;

/**
 * Who did what to what. An event that cannot be written is lost, and logged, rather than that nothing can be done any more
 * while there is no room for it.
 */
export class Events {
  readonly #options: EventsOptions;
  readonly #unwatch: () => void;
  readonly #pending: Pending[] = [];
  /** Tasks that run, by their attempt. */
  readonly #tasks = new Map<
    number,
    { readonly attempts: number; readonly task: Task; readonly eventId: Promise<number> }
  >();
  readonly #gathering = new Gathering(GATHER_MS);
  #writing: Promise<void> | undefined;
  /** Of the event that was told last. */
  #latest: Promise<number> = Promise.resolve(0);

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#unwatch = options.tablet.watch((changes) => this.#onChanges(changes));
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.flush();
    await this.#writing;
  }

  /** Writes what waits. Resolves when all that was told so far is durable, or lost, which is logged. */
  async flush(): Promise<void> {
    if (this.#pending.length > 0) this.#gathering.hurry();
    await this.#latest;
  }

  /** Resolves with its id when it is durable, with 0 when it was lost. What a task does is done by who asked for it. */
  record(deed: Deed, origin: Origin, rest: Partial<Pick<DirectorEvent, "parentId" | "error">> = {}): Promise<number> {
    const eventId = this.#add(deed, origin, rest);
    this.#gathering.hurry();
    return eventId;
  }

  #add(deed: Deed, origin: Origin, rest: Partial<Pick<DirectorEvent, "parentId" | "error">>): Promise<number> {
    const { clock, log } = this.#options;
    const { user = "", deployment = "" } = this.#tasks.get(origin.taskId ?? 0)?.task ?? {};
    const unless = { user, taskId: 0, deployment, instance: "", context: {}, parentId: 0, error: "" };
    const event = { timeMs: clock.nowMs(), ...unless, ...deed, ...origin, ...rest };
    if (this.#pending.length >= MAX_PENDING) {
      log.error({ event }, "too many events wait to be written: this one is lost");
      return Promise.resolve(0);
    }
    this.#latest = new Promise((resolve) => this.#pending.push({ line: encodeDirectorEvent(event), resolve }));
    this.#writing ??= this.#write();
    return this.#latest;
  }

  /** Resolves when the beginning is durable: only then it is begun. It is a part of what its task does. */
  async begin(deed: Deed, origin: Origin & { readonly taskId: number }): Promise<Begun> {
    const parentId = await this.record(deed, origin, { parentId: await this.#tasks.get(origin.taskId)?.eventId });
    return {
      end: ({ objectName = deed.objectName, error = "" }) =>
        void this.#add({ ...deed, objectName }, origin, { parentId, error }),
    };
  }

  /** Of all that was told so far. */
  async bounds(): Promise<{ readonly first: number; readonly next: number }> {
    await this.flush();
    return this.#options.eventLog.bounds(STREAM);
  }

  /** Newest first, those below that index; what is forgotten meanwhile is left out. */
  async readBelow(index: number): Promise<NumberedEvent[]> {
    const from = Math.max(0, index - READ_AT_ONCE);
    const { lines, next } = await this.#options.eventLog.read(STREAM, { from, limit: index - from });
    const events = lines.map((line, i) => decodeDirectorEvent(line, next - lines.length + i + 1));
    return events.filter(({ eventId }) => eventId <= index).reverse();
  }

  #onChanges(changes: readonly Change[]): void {
    for (const { table, document } of changes) {
      if (table !== "tasks" || document === null) continue;
      const task = document as Task;
      if (!isTold(task)) continue;
      if (hasEnded(task)) this.#endTask(task);
      else if (task.state === "processing" && this.#tasks.get(task.taskId)?.attempts !== task.attempts)
        this.#beginTask(task);
    }
  }

  #beginTask(task: Task): void {
    const { taskId, attempts } = task;
    this.#tasks.set(taskId, { attempts, task, eventId: this.record(deedOf(task), originOf(task)) });
  }

  #endTask(task: Task): void {
    const begun = this.#tasks.get(task.taskId);
    this.#tasks.delete(task.taskId);
    const error = task.state === "done" ? "" : task.result;
    // Its job, which says what it was to do, is known from its beginning alone.
    if (begun === undefined) void this.#add(deedOf(task), originOf(task), { error });
    else void begun.eventId.then((parentId) => this.#add(deedOf(begun.task), originOf(task), { parentId, error }));
  }

  async #write(): Promise<void> {
    const { eventLog, log } = this.#options;
    while (this.#pending.length > 0) {
      await this.#gathering.whole();
      const batch = this.#pending.splice(0, BATCH);
      try {
        const next = await eventLog.append(
          STREAM,
          batch.map(({ line }) => line),
        );
        for (const [i, { resolve }] of batch.entries()) resolve(next - batch.length + i + 1);
        await this.#forgetSurplus(next, batch.length);
      } catch (error) {
        log.error({ error: messageOf(error), events: batch.map(({ line }) => line) }, "events could not be written");
        for (const { resolve } of batch) resolve(0);
      }
    }
    this.#writing = undefined;
  }

  /** Now and then, for many at a time. */
  async #forgetSurplus(next: number, added: number): Promise<void> {
    const { eventLog, maxCount } = this.#options;
    const every = Math.ceil(maxCount / 10);
    if (next <= maxCount || Math.floor(next / every) === Math.floor((next - added) / every)) return;
    await eventLog.trim(STREAM, next - maxCount);
  }
}

function originOf({ user, taskId, deployment }: Task): Origin & { readonly taskId: number } {
  return { user, taskId, deployment };
}
