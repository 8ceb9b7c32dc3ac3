import { backoffMs, DiskFullError, type Logger, messageOf } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import type { EventLog } from "@diskmesh/tablet";
import { Gathering } from "../store/gathering.js";
import type { Task } from "../store/task.js";
import { decodeEvent, encodeEvent, type TaskEvent, WARNING } from "./task-event.js";

export interface TaskLogOptions {
  readonly eventLog: Pick<EventLog, "append" | "read" | "drop">;
  readonly changes: Changes<number>;
  readonly maxEventsPerTask: number;
  /** The most lines of each output other than events. */
  readonly maxOutputLinesPerTask: number;
  /** The most bytes of each output, events included. */
  readonly maxOutputBytesPerTask: number;
  /** The most bytes of all tasks that wait for the storage. Beyond it lines are lost, so that memory stays bounded. */
  readonly maxWaitingOutputBytes: number;
  /** While there is no room for a line it waits; from then on it does not. */
  readonly stopping: AbortSignal;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** The outputs of a running task. */
export type OutputType = "event" | "cpi" | "debug" | "result";
const OUTPUT_TYPES: readonly OutputType[] = ["event", "cpi", "debug", "result"];

type LoggedTask = Pick<Task, "taskId" | "eventCount">;

interface Writer {
  readonly pending: string[];
  /** In this process; a log that a former one had begun goes on behind what is there. */
  written: number;
  writtenSizeBytes: number;
  /** The index that the next line will have, once one was written; undefined while that is not known. */
  next: number | undefined;
  writing: Promise<void> | undefined;
  readonly gathering: Gathering;
}

/** Lines of one output that wait for the storage; beyond it a task that talks too fast loses lines. */
const MAX_PENDING_LINES = 1_000;
const MAX_LINE_LENGTH = 16_384;

/** Lines gather for so long, unless somebody waits for them: a commit for each would cost a short task as much as its work. */
const GATHER_MS = 100;

const ROOM_BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };

const LAST_MESSAGE = "this task has reached its limit of events: what follows is not kept";
const LAST_LINE = "this output has reached its limit: what follows is not kept";

/** The logs of tasks. Writing does not delay the work: what is under way is waited for at its end. */
export class TaskLog {
  readonly #options: TaskLogOptions;
  /** Writers by stream. */
  readonly #writers = new Map<string, Writer>();
  /** Tasks that were heard of and have not ended. */
  readonly #live = new Set<number>();
  /** How many steps a task has taken of each stage. */
  readonly #steps = new Map<number, Map<string, number>>();
  #pendingSizeBytes = 0;

  constructor(options: TaskLogOptions) {
    this.#options = options;
  }

  append(taskId: number, event: TaskEvent, errorCode?: number): void {
    const { maxEventsPerTask: limit } = this.#options;
    this.#live.add(taskId);
    const last = { ...event, stage: WARNING, message: LAST_MESSAGE };
    this.#append(taskId, "event", limit, (isLast) => (isLast ? encodeEvent(last) : encodeEvent(event, errorCode)));
  }

  /** Where in its stage the next step is that the task takes, from 1. */
  nextStep(taskId: number, stage: string): number {
    const steps = this.#steps.get(taskId) ?? new Map<string, number>();
    this.#steps.set(taskId, steps);
    const step = (steps.get(stage) ?? 0) + 1;
    steps.set(stage, step);
    return step;
  }

  appendLine(taskId: number, type: Exclude<OutputType, "event">, line: string): void {
    const text = line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)}...` : line;
    this.#append(taskId, type, this.#options.maxOutputLinesPerTask, (last) => (last ? LAST_LINE : text));
  }

  /** Resolves when everything appended so far is durable, or could not be made so, which is logged. */
  async flush(taskId: number): Promise<void> {
    const writers = OUTPUT_TYPES.map((type) => this.#writers.get(streamOf(taskId, type)));
    // In one turn, so that they share a commit.
    for (const writer of writers) if (writer?.pending.length) writer.gathering.hurry();
    await Promise.all(writers.map((writer) => writer?.writing));
  }

  /** How many events the task has, after a flush; undefined when this process has written none. */
  eventCount(taskId: number): number | undefined {
    return this.#writers.get(streamOf(taskId, "event"))?.next;
  }

  /** Returns the bytes that this process wrote of the task. */
  sizeBytes(taskId: number): number {
    const writers = OUTPUT_TYPES.map((type) => this.#writers.get(streamOf(taskId, type)));
    return writers.reduce((sum, writer) => sum + (writer?.writtenSizeBytes ?? 0), 0);
  }

  /** The task has ended: no events are appended any more, at most some last lines of CPIs. */
  forget(taskId: number): void {
    this.#live.delete(taskId);
    this.#steps.delete(taskId);
    for (const type of OUTPUT_TYPES) this.#writers.delete(streamOf(taskId, type));
  }

  async read(task: LoggedTask, from: number, limit: number): Promise<TaskEvent[]> {
    return (await this.readLines(task, "event", from, limit)).map(decodeEvent);
  }

  /** Lines as they were written: what was read once is never another. Of a task that has ended, nothing comes later. */
  async readLines(task: LoggedTask, type: OutputType, from: number, limit: number): Promise<string[]> {
    const end = (type === "event" ? task.eventCount : undefined) ?? Number.POSITIVE_INFINITY;
    const wanted = Math.max(0, Math.min(limit, end - from));
    return (await this.#options.eventLog.read(streamOf(task.taskId, type), { from, limit: wanted })).lines;
  }

  /** Deletes all that a task has put out. */
  async drop(taskId: number): Promise<void> {
    for (const type of OUTPUT_TYPES) await this.#options.eventLog.drop(streamOf(taskId, type));
  }

  #append(taskId: number, type: OutputType, limit: number, textOf: (last: boolean) => string): void {
    const stream = streamOf(taskId, type);
    const writer = this.#writers.get(stream) ?? newWriter();
    this.#writers.set(stream, writer);
    const { maxOutputBytesPerTask, maxWaitingOutputBytes } = this.#options;
    if (writer.written >= limit || writer.pending.length >= MAX_PENDING_LINES) return;
    const text = textOf(false);
    const sizeBytes = Buffer.byteLength(text);
    if (this.#pendingSizeBytes + sizeBytes > maxWaitingOutputBytes) return;
    const isLast = writer.written + 1 === limit || writer.writtenSizeBytes + sizeBytes > maxOutputBytesPerTask;
    const line = isLast ? textOf(true) : text;
    writer.written = isLast ? limit : writer.written + 1;
    writer.writtenSizeBytes += Buffer.byteLength(line);
    this.#pendingSizeBytes += Buffer.byteLength(line);
    writer.pending.push(line);
    writer.writing ??= this.#write(taskId, stream, writer);
  }

  async #write(taskId: number, stream: string, writer: Writer): Promise<void> {
    for (let failures = 0; writer.pending.length > 0; ) {
      if (failures === 0 && !this.#options.stopping.aborted) await writer.gathering.whole();
      const lines = writer.pending.splice(0);
      try {
        writer.next = await this.#options.eventLog.append(stream, lines);
        failures = 0;
      } catch (error) {
        writer.next = undefined;
        this.#options.log.error({ taskId, error: messageOf(error), failures }, "cannot write a task's log");
        if (error instanceof DiskFullError && (await this.#waitForRoom(failures++))) {
          writer.pending.unshift(...lines);
          continue;
        }
      }
      for (const line of lines) this.#pendingSizeBytes -= Buffer.byteLength(line);
      this.#options.changes.touch(taskId);
    }
    writer.writing = undefined;
    if (!this.#live.has(taskId)) this.#writers.delete(stream);
  }

  /** False when this process stops before it is worth another try. */
  async #waitForRoom(failures: number): Promise<boolean> {
    const { clock, random, stopping } = this.#options;
    await clock.sleep(backoffMs(failures, ROOM_BACKOFF, random()), stopping).catch(() => {});
    return !stopping.aborted;
  }
}

function newWriter(): Writer {
  return {
    pending: [],
    written: 0,
    writtenSizeBytes: 0,
    next: undefined,
    writing: undefined,
    gathering: new Gathering(GATHER_MS),
  };
}

function streamOf(taskId: number, type: OutputType): string {
  return type === "event" ? `task-${taskId}` : `task-${taskId}-${type}`;
}
