import { type Logger, messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Change, EventLog } from "@diskmesh/tablet";
import type { Asker, DirectorEvent, NumberedEvent, UntoldEvent } from "../store/director-event.js";
import { Gathering } from "../store/gathering.js";
import { type DirectorTransaction, nextNumber, noteKey, taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Task } from "../store/task.js";
import {
  completeEvent,
  type Deed,
  decodeDirectorEvent,
  deedOf,
  encodeDirectorEvent,
  isAudited,
  noteIdOf,
} from "./director-event.js";

export interface EventsOptions {
  readonly eventLog: Pick<EventLog, "append" | "read" | "bounds" | "trim">;
  readonly tablet: DirectorTablet;
  /** The oldest events are deleted beyond this count. */
  readonly maxCount: number;
  readonly clock: Clock;
  readonly log: Logger;
}

interface QueuedEvent {
  readonly event: Omit<DirectorEvent, "parentId">;
  /** The event that this event ends or is part of. */
  readonly parent: QueuedEvent | undefined;
  /** Id of the note from which the event is written; undefined for an event that was not noted (see `note`). */
  readonly noteId: number | undefined;
  /** Undefined until the event is durable; 0 when it was lost. */
  eventId: number | undefined;
  readonly written: Promise<number>;
  readonly resolve: (eventId: number) => void;
}

/** The result of an action that was begun. */
interface Outcome {
  readonly objectName?: string;
  readonly error?: string;
  readonly taskId?: number;
}

/** A begun action whose end is to be recorded. */
export interface Begun {
  end(outcome: Outcome): void;
}

/** The caller and place of an event. */
export type Origin = Partial<Omit<DirectorEvent, keyof Deed | "timeMs" | "parentId">>;

const STREAM = "events";
const BATCH = 1_000;
const READ_AT_ONCE = 500;
/**
 * Maximum delay of a write, so that events share commits. A commit for each event would cost as much as a short task.
 */
const GATHER_MS = 100;
/** Maximum number of events that wait for storage in memory, and maximum number of notes. Further events are lost. */
const MAX_PENDING = 10_000;
/**
 * Number of latest events in which a starting director looks for the events of leftover notes. A note is deleted soon
 * after its event is durable, so the event of a leftover note is recent.
 */
const READ_FOR_NOTES = 2_000;

/**
 * The audit events. An event that cannot be written is logged and dropped, so that the director keeps working while
 * storage fails.
 */
export class Events {
  readonly #options: EventsOptions;
  readonly #unwatch: () => void;
  readonly #pending: QueuedEvent[] = [];
  /** Running tasks by task id, with the attempt. */
  readonly #tasks = new Map<number, { readonly attempts: number; readonly task: Task; readonly begun: QueuedEvent }>();
  /** Noted begin events whose ends are pending, by note id. The value is undefined until the transaction is durable. */
  readonly #begunNotes = new Map<number, QueuedEvent | undefined>();
  readonly #gathering = new Gathering(GATHER_MS);
  #writing: Promise<void> | undefined;
  #latest: Promise<unknown> = Promise.resolve();
  readonly #left: Promise<void>;

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#unwatch = options.tablet.watch((changes) => this.#onChanges(changes));
    this.#left = this.#writeFormerNotes();
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.flush();
    await this.#writing;
  }

  /** Writes the pending events. Resolves when all events recorded so far are durable or lost; losses are logged. */
  async flush(): Promise<void> {
    await this.#left;
    if (this.#pending.length > 0) this.#gathering.hurry();
    await this.#latest;
  }

  /**
   * Resolves with the event id when the event is durable, with 0 when it is lost. An event of a task carries the task's
   * caller.
   */
  record(deed: Deed, origin: Origin): Promise<number> {
    const { written } = this.#add(deed, origin);
    this.#gathering.hurry();
    return written;
  }

  /**
   * Notes an event in the transaction that performs the action. The note becomes durable with the transaction and is
   * then written as an event. After a crash the next process writes the event.
   */
  note(tx: DirectorTransaction, deed: Deed, asker: Asker, origin: Origin = {}): void {
    this.#noteIn(tx, { answer: "OK", ...deed, ...asker, ...origin });
  }

  /**
   * Notes the begin event of a task's action in the transaction that intends the action. The event is written as in
   * `note`. Only the first call of `end` counts.
   */
  noteBegin(tx: DirectorTransaction, deed: Deed, origin: Origin & { readonly taskId: number }): Begun {
    const task = tx.tasks.get(taskKey(origin.taskId));
    const all = { ...(task && originOf(task)), ...origin };
    const noteId = this.#noteIn(tx, { ...deed, ...all });
    this.#begunNotes.set(noteId, undefined);
    return {
      end: (outcome) => {
        const begun = this.#begunNotes.get(noteId);
        if (this.#begunNotes.delete(noteId)) this.#endOf(begun, deed, origin, outcome);
      },
    };
  }

  #noteIn(tx: DirectorTransaction, event: Partial<DirectorEvent>): number {
    const noteId = nextNumber(tx, "note");
    const complete = completeEvent({ timeMs: this.#options.clock.nowMs(), ...event });
    tx.untoldEvents.put({ noteId, event: encodeDirectorEvent(complete) });
    // The oldest notes are deleted so that the store stays bounded while no event can be written.
    tx.untoldEvents.delete(noteKey(noteId - MAX_PENDING));
    return noteId;
  }

  /** Records the begin of an action; the returned object records its end. Does not wait for either write. */
  open(deed: Deed, origin: Origin): Begun {
    return this.#begun(this.#add(deed, origin), deed, origin);
  }

  /**
   * Records the begin event of a task's action. Resolves when the event is durable, so that no action starts
   * unrecorded. The begin event of the task becomes the parent.
   */
  async begin(deed: Deed, origin: Origin & { readonly taskId: number }): Promise<Begun> {
    const queued = this.#add(deed, origin, { parent: this.#tasks.get(origin.taskId)?.begun });
    this.#gathering.hurry();
    await queued.written;
    return this.#begun(queued, deed, origin);
  }

  #begun(parent: QueuedEvent, deed: Deed, origin: Origin): Begun {
    return { end: (outcome) => this.#endOf(parent, deed, origin, outcome) };
  }

  #endOf(
    parent: QueuedEvent | undefined,
    deed: Deed,
    origin: Origin,
    { objectName = deed.objectName, error = "", taskId = origin.taskId ?? 0 }: Outcome,
  ): void {
    this.#add({ ...deed, objectName }, { answer: error === "" ? "OK" : "ERROR", ...origin, taskId }, { parent, error });
  }

  #add(
    deed: Deed,
    origin: Origin,
    { parent, error = "" }: { readonly parent?: QueuedEvent | undefined; readonly error?: string } = {},
  ): QueuedEvent {
    const { clock } = this.#options;
    const task = this.#tasks.get(origin.taskId ?? 0)?.task;
    const unless = { ...(task && originOf(task)), error };
    const event = completeEvent({ timeMs: clock.nowMs(), ...unless, ...deed, ...origin });
    return this.#push(newQueuedEvent(event, parent));
  }

  #push(queued: QueuedEvent): QueuedEvent {
    const { log } = this.#options;
    if (this.#pending.length >= MAX_PENDING) {
      log.error({ event: queued.event }, "audit event dropped, write queue full");
      settle(queued, 0);
      return queued;
    }
    this.#pending.push(queued);
    this.#latest = queued.written;
    this.#writing ??= this.#write();
    return queued;
  }

  /** Returns the bounds of all events recorded so far. */
  async bounds(): Promise<{ readonly first: number; readonly next: number }> {
    await this.flush();
    return this.#options.eventLog.bounds(STREAM);
  }

  /** Returns events below the index, newest first. Omits events that are deleted meanwhile. */
  async readBelow(index: number): Promise<NumberedEvent[]> {
    const from = Math.max(0, index - READ_AT_ONCE);
    const { lines, next } = await this.#options.eventLog.read(STREAM, { from, limit: index - from });
    const events = lines.map((line, i) => decodeDirectorEvent(line, next - lines.length + i + 1));
    return events.filter(({ eventId }) => eventId <= index).reverse();
  }

  #onChanges(changes: readonly Change[]): void {
    for (const { table, document } of changes) {
      if (table === "untoldEvents" && document !== null) this.#queueNote(document as UntoldEvent);
      if (table !== "tasks" || document === null) continue;
      const task = document as Task;
      if (!isAudited(task)) continue;
      if (hasEnded(task)) this.#endTask(task);
      else if (task.state === "processing" && this.#tasks.get(task.taskId)?.attempts !== task.attempts)
        this.#beginTask(task);
    }
  }

  #queueNote({ noteId, event }: UntoldEvent): void {
    const { eventId: _, parentId: __, ...noted } = decodeDirectorEvent(event, 0);
    const isBegin = this.#begunNotes.has(noteId);
    const queued = this.#push(
      newQueuedEvent(noted, isBegin ? this.#tasks.get(noted.taskId)?.begun : undefined, noteId),
    );
    if (isBegin) this.#begunNotes.set(noteId, queued);
  }

  /** Writes the events that a previous process noted but did not write. */
  async #writeFormerNotes(): Promise<void> {
    const { tablet, eventLog, log } = this.#options;
    try {
      const left = await tablet.read(({ untoldEvents }) => [...untoldEvents.entries()]);
      if (left.length === 0) return;
      const { next } = await eventLog.bounds(STREAM);
      const from = Math.max(0, next - READ_FOR_NOTES);
      const { lines } = await eventLog.read(STREAM, { from, limit: READ_FOR_NOTES });
      const written = new Set(lines.map(noteIdOf));
      for (const note of left) if (!written.has(note.noteId)) this.#queueNote(note);
      this.#forgetNotes(left.map(({ noteId }) => noteId).filter((noteId) => written.has(noteId)));
    } catch (error) {
      log.error({ error: messageOf(error) }, "audit event recovery failed, retried at the next start");
    }
  }

  /**
   * Deletes notes whose events are durable. After a crash, the next process finds the events by note id and deletes the
   * notes.
   */
  #forgetNotes(noteIds: readonly number[]): void {
    if (noteIds.length === 0) return;
    const { tablet, log } = this.#options;
    const forget = (tx: DirectorTransaction) => {
      for (const noteId of noteIds) tx.untoldEvents.delete(noteKey(noteId));
    };
    tablet
      .transact(forget)
      .catch((error: unknown) => log.debug({ error: messageOf(error) }, "audit event note deletion failed"));
  }

  /** Queues the begin event of a task, which becomes the parent of the events of the task's actions. */
  #beginTask(task: Task): void {
    const { taskId, attempts } = task;
    this.#tasks.set(taskId, { attempts, task, begun: this.#add(deedOf(task), originOf(task)) });
  }

  #endTask(task: Task): void {
    const begun = this.#tasks.get(task.taskId);
    this.#tasks.delete(task.taskId);
    const error = task.state === "done" ? "" : task.result;
    const answer = task.state === "done" ? "OK" : task.state.toUpperCase();
    // An ended task has no job, so the job is taken from the begin of the task.
    this.#add(deedOf(begun?.task ?? task), { ...originOf(task), answer }, { parent: begun?.begun, error });
  }

  async #write(): Promise<void> {
    const { eventLog, log } = this.#options;
    while (this.#pending.length > 0) {
      await this.#gathering.whole();
      const batch = this.#pending.splice(0, BATCH);
      const lines = linesOf(batch);
      try {
        const next = await eventLog.append(STREAM, lines);
        for (const [i, queued] of batch.entries()) settle(queued, next - batch.length + i + 1);
        this.#forgetNotes(batch.flatMap(({ noteId }) => noteId ?? []));
        await this.#forgetSurplus(next, batch.length);
      } catch (error) {
        log.error({ error: messageOf(error), events: lines }, "audit event write failed");
        for (const queued of batch) settle(queued, 0);
      }
    }
    this.#writing = undefined;
  }

  /** Trims the oldest events in steps of a tenth of the limit. */
  async #forgetSurplus(next: number, added: number): Promise<void> {
    const { eventLog, maxCount } = this.#options;
    const every = Math.ceil(maxCount / 10);
    if (next <= maxCount || Math.floor(next / every) === Math.floor((next - added) / every)) return;
    await eventLog.trim(STREAM, next - maxCount);
  }
}

function newQueuedEvent(event: QueuedEvent["event"], parent: QueuedEvent | undefined, noteId?: number): QueuedEvent {
  let resolve: QueuedEvent["resolve"] = () => {};
  const written = new Promise<number>((onWritten) => {
    resolve = onWritten;
  });
  return { event, parent, noteId, eventId: undefined, written, resolve };
}

function settle(queued: QueuedEvent, eventId: number): void {
  // Events are durable before the trim, so a failed trim keeps their ids.
  queued.eventId ??= eventId;
  queued.resolve(queued.eventId);
}

/** Events of one batch have no ids yet, so a child stores the distance in lines to its parent. */
function linesOf(batch: readonly QueuedEvent[]): string[] {
  const placeOf = new Map(batch.map((queued, place) => [queued, place]));
  return batch.map(({ event, parent, noteId = 0 }, place) => {
    const parentPlace = parent && placeOf.get(parent);
    const parentBefore = parentPlace === undefined ? 0 : place - parentPlace;
    return encodeDirectorEvent({ ...event, parentId: parent?.eventId ?? 0 }, { parentBefore, noteId });
  });
}

function originOf(task: Task): Origin & { readonly taskId: number } {
  const { user, taskId, deployment, requestId = "", authentication = "", traceParent } = task;
  return { user, taskId, deployment, requestId, authentication, traceId: traceParent?.split("-")[1] ?? "" };
}
