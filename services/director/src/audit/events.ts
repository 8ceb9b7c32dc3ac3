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
  isTold,
  noteIdOf,
} from "./director-event.js";

export interface EventsOptions {
  readonly eventLog: Pick<EventLog, "append" | "read" | "bounds" | "trim">;
  readonly tablet: DirectorTablet;
  /** Beyond it the oldest are forgotten. */
  readonly maxCount: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** An event that was told. */
interface Told {
  readonly event: Omit<DirectorEvent, "parentId">;
  /** The event that this one ends, or is a part of. */
  readonly parent: Told | undefined;
  /** Where it was noted in a transaction. */
  readonly noteId: number | undefined;
  /** Undefined until it is durable, 0 when it was lost. */
  eventId: number | undefined;
  readonly written: Promise<number>;
  readonly resolve: (eventId: number) => void;
}

/** The result of a begun action. */
interface Outcome {
  readonly objectName?: string;
  readonly error?: string;
  readonly taskId?: number;
}

/** Something that was begun, whose end is to be told. */
export interface Begun {
  end(outcome: Outcome): void;
}

/** The caller and place of an event. */
export type Origin = Partial<Omit<DirectorEvent, keyof Deed | "timeMs" | "parentId">>;

const STREAM = "events";
const BATCH = 1_000;
const READ_AT_ONCE = 500;
/** So long an end may wait for what is written next: a commit for each would cost a short task as much as its work. */
const GATHER_MS = 100;
/** Events that wait for the storage, in memory and as notes; beyond it some are lost. */
const MAX_PENDING = 10_000;
/** Among so many a note's line is looked for: a note is forgotten as soon as its line is durable. */
const READ_FOR_NOTES = 2_000;

/**
 * The audit events. An event that cannot be written is logged and lost, so that the director goes on while there is no
 * room for it.
 */
export class Events {
  readonly #options: EventsOptions;
  readonly #unwatch: () => void;
  readonly #pending: Told[] = [];
  /** Tasks that run, by their attempt. */
  readonly #tasks = new Map<number, { readonly attempts: number; readonly task: Task; readonly begun: Told }>();
  /** Beginnings that were noted and whose ends are to be told; undefined until they are durable. */
  readonly #begunNotes = new Map<number, Told | undefined>();
  readonly #gathering = new Gathering(GATHER_MS);
  #writing: Promise<void> | undefined;
  #latest: Promise<unknown> = Promise.resolve();
  readonly #left: Promise<void>;

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#unwatch = options.tablet.watch((changes) => this.#onChanges(changes));
    this.#left = this.#tellWhatWasLeft();
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.flush();
    await this.#writing;
  }

  /** Writes what waits. Resolves when all that was told so far is durable, or lost, which is logged. */
  async flush(): Promise<void> {
    await this.#left;
    if (this.#pending.length > 0) this.#gathering.hurry();
    await this.#latest;
  }

  /** Resolves with its id when it is durable, with 0 when it was lost. What a task does is done by who asked for it. */
  record(deed: Deed, origin: Origin): Promise<number> {
    const { written } = this.#add(deed, origin);
    this.#gathering.hurry();
    return written;
  }

  /**
   * Notes, in the transaction that does it, what a call has done. It is durable with that, and told once it is; if this
   * process dies before, the next one tells it.
   */
  note(tx: DirectorTransaction, deed: Deed, asker: Asker, origin: Origin = {}): void {
    this.#noteIn(tx, { answer: "OK", ...deed, ...asker, ...origin });
  }

  /**
   * Notes, in the transaction that intends it, what a task begins: it is durable with that. Told of at its own time, as
   * `note` does; of its ends the first counts.
   */
  noteBegin(tx: DirectorTransaction, deed: Deed, origin: Origin & { readonly taskId: number }): Begun {
    const task = tx.tasks.get(taskKey(origin.taskId));
    const told = { ...(task && originOf(task)), ...origin };
    const noteId = this.#noteIn(tx, { ...deed, ...told });
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
    // Where no event can be written for long, the store must not grow with each call: the oldest give way.
    tx.untoldEvents.delete(noteKey(noteId - MAX_PENDING));
    return noteId;
  }

  /** Tells of something as it begins, and, by what is returned, as it ends. Nothing waits for either to be written. */
  open(deed: Deed, origin: Origin): Begun {
    return this.#begun(this.#add(deed, origin), deed, origin);
  }

  /** Resolves when the beginning is durable: only then it is begun. It is a part of what its task does. */
  async begin(deed: Deed, origin: Origin & { readonly taskId: number }): Promise<Begun> {
    const told = this.#add(deed, origin, { parent: this.#tasks.get(origin.taskId)?.begun });
    this.#gathering.hurry();
    await told.written;
    return this.#begun(told, deed, origin);
  }

  #begun(parent: Told, deed: Deed, origin: Origin): Begun {
    return { end: (outcome) => this.#endOf(parent, deed, origin, outcome) };
  }

  #endOf(
    parent: Told | undefined,
    deed: Deed,
    origin: Origin,
    { objectName = deed.objectName, error = "", taskId = origin.taskId ?? 0 }: Outcome,
  ): void {
    this.#add({ ...deed, objectName }, { answer: error === "" ? "OK" : "ERROR", ...origin, taskId }, { parent, error });
  }

  #add(
    deed: Deed,
    origin: Origin,
    { parent, error = "" }: { readonly parent?: Told | undefined; readonly error?: string } = {},
  ): Told {
    const { clock } = this.#options;
    const task = this.#tasks.get(origin.taskId ?? 0)?.task;
    const unless = { ...(task && originOf(task)), error };
    const event = completeEvent({ timeMs: clock.nowMs(), ...unless, ...deed, ...origin });
    return this.#push(newTold(event, parent));
  }

  #push(told: Told): Told {
    const { log } = this.#options;
    if (this.#pending.length >= MAX_PENDING) {
      log.error({ event: told.event }, "too many events wait to be written: this one is lost");
      settle(told, 0);
      return told;
    }
    this.#pending.push(told);
    this.#latest = told.written;
    this.#writing ??= this.#write();
    return told;
  }

  /** Returns the bounds of all events recorded so far. */
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
      if (table === "untoldEvents" && document !== null) this.#tellNote(document as UntoldEvent);
      if (table !== "tasks" || document === null) continue;
      const task = document as Task;
      if (!isTold(task)) continue;
      if (hasEnded(task)) this.#endTask(task);
      else if (task.state === "processing" && this.#tasks.get(task.taskId)?.attempts !== task.attempts)
        this.#beginTask(task);
    }
  }

  #tellNote({ noteId, event }: UntoldEvent): void {
    const { eventId: _, parentId: __, ...noted } = decodeDirectorEvent(event, 0);
    const isBegin = this.#begunNotes.has(noteId);
    const told = this.#push(newTold(noted, isBegin ? this.#tasks.get(noted.taskId)?.begun : undefined, noteId));
    if (isBegin) this.#begunNotes.set(noteId, told);
  }

  /** Writes the events that a former director noted and did not come to write. */
  async #tellWhatWasLeft(): Promise<void> {
    const { tablet, eventLog, log } = this.#options;
    try {
      const left = await tablet.read(({ untoldEvents }) => [...untoldEvents.entries()]);
      if (left.length === 0) return;
      const { next } = await eventLog.bounds(STREAM);
      const from = Math.max(0, next - READ_FOR_NOTES);
      const { lines } = await eventLog.read(STREAM, { from, limit: READ_FOR_NOTES });
      const told = new Set(lines.map(noteIdOf));
      for (const note of left) if (!told.has(note.noteId)) this.#tellNote(note);
      this.#forgetNotes(left.map(({ noteId }) => noteId).filter((noteId) => told.has(noteId)));
    } catch (error) {
      log.error(
        { error: messageOf(error) },
        "what a former director noted could not be told; the next one tries again",
      );
    }
  }

  /** Once they are told. Those that stay, since this process ends, the next one finds among the events. */
  #forgetNotes(noteIds: readonly number[]): void {
    if (noteIds.length === 0) return;
    const { tablet, log } = this.#options;
    const forget = (tx: DirectorTransaction) => {
      for (const noteId of noteIds) tx.untoldEvents.delete(noteKey(noteId));
    };
    tablet
      .transact(forget)
      .catch((error: unknown) => log.debug({ error: messageOf(error) }, "notes of events were not forgotten"));
  }

  /** Written with what the task does first: then it is known whose part that is. */
  #beginTask(task: Task): void {
    const { taskId, attempts } = task;
    this.#tasks.set(taskId, { attempts, task, begun: this.#add(deedOf(task), originOf(task)) });
  }

  #endTask(task: Task): void {
    const begun = this.#tasks.get(task.taskId);
    this.#tasks.delete(task.taskId);
    const error = task.state === "done" ? "" : task.result;
    const answer = task.state === "done" ? "OK" : task.state.toUpperCase();
    // Its job, which says what it was to do, is known from its beginning alone.
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
        for (const [i, told] of batch.entries()) settle(told, next - batch.length + i + 1);
        this.#forgetNotes(batch.flatMap(({ noteId }) => noteId ?? []));
        await this.#forgetSurplus(next, batch.length);
      } catch (error) {
        log.error({ error: messageOf(error), events: lines }, "events could not be written");
        for (const told of batch) settle(told, 0);
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

function newTold(event: Told["event"], parent: Told | undefined, noteId?: number): Told {
  let resolve: Told["resolve"] = () => {};
  const written = new Promise<number>((onWritten) => {
    resolve = onWritten;
  });
  return { event, parent, noteId, eventId: undefined, written, resolve };
}

function settle(told: Told, eventId: number): void {
  // A second one comes when the surplus could not be forgotten.
  told.eventId ??= eventId;
  told.resolve(told.eventId);
}

/** Events written together have no ids yet: a part stores how many lines before it its parent stands. */
function linesOf(batch: readonly Told[]): string[] {
  const placeOf = new Map(batch.map((told, place) => [told, place]));
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
