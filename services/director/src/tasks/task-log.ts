import { backoffMs, DiskFullError, type Logger, messageOf, visible } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import type { EventLog } from "@diskmesh/tablet";
import { Gathering } from "../store/gathering.js";
import type { Task } from "../store/task.js";
import { progressAfter, type StepProgress } from "./step-progress.js";
import { decodeEvent, encodeEvent, type TaskEvent, WARNING } from "./task-event.js";

export interface TaskLogOptions {
  readonly eventLog: Pick<EventLog, "append" | "read" | "drop">;
  readonly changes: Changes<number>;
  readonly maxEventsPerTask: number;
  /** Maximum lines of each output other than events. */
  readonly maxOutputLinesPerTask: number;
  /** Maximum bytes of each output, events included. */
  readonly maxOutputBytesPerTask: number;
  /**
   * Maximum bytes of all tasks' lines that wait for storage. Lines beyond the limit are dropped, so that memory stays
   * bounded.
   */
  readonly maxWaitingOutputBytes: number;
  /** Ends the retries of writes that fail because the storage is full. */
  readonly stopping: AbortSignal;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The output streams of a task. */
export type OutputType = "event" | "cpi" | "debug" | "result";
const OUTPUT_TYPES: readonly OutputType[] = ["event", "cpi", "debug", "result"];

type LoggedTask = Pick<Task, "taskId" | "eventCount">;

interface Writer {
  readonly pending: string[];
  /** Number of lines accepted by this process. An earlier process may have written lines before them. */
  written: number;
  writtenSizeBytes: number;
  /** The index of the next line; undefined until the first line was written. */
  next: number | undefined;
  writing: Promise<void> | undefined;
  readonly gathering: Gathering;
}

/** Maximum lines of an output that wait for storage; further lines are dropped. */
const MAX_PENDING_LINES = 1_000;
const MAX_LINE_LENGTH = 16_384;

/**
 * Lines gather for this time unless a caller flushes. A commit for each line would cost a short task as much as its
 * work.
 */
const GATHER_MS = 100;

const ROOM_BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };

const LAST_MESSAGE = "this task has reached its limit of events: what follows is not kept";
const LAST_LINE = "this output has reached its limit: what follows is not kept";

/** The output logs of tasks. Lines are written in the background; `flush` waits for them at the end of the task. */
export class TaskLog {
  readonly #options: TaskLogOptions;
  /** Writers by stream name. */
  readonly #writers = new Map<string, Writer>();
  /** Tasks with output in this process that have not ended. */
  readonly #live = new Set<number>();
  /** The number of steps begun in each stage, by task id. */
  readonly #steps = new Map<number, Map<string, number>>();
  /** The progress of live tasks, by task id. */
  readonly #progress = new Map<number, StepProgress>();
  #pendingSizeBytes = 0;

  constructor(options: TaskLogOptions) {
    this.#options = options;
  }

  append(taskId: number, event: TaskEvent, errorCode?: number): void {
    const { maxEventsPerTask: limit } = this.#options;
    this.#live.add(taskId);
    const progress = progressAfter(this.#progress.get(taskId), event);
    if (progress === undefined) this.#progress.delete(taskId);
    else this.#progress.set(taskId, progress);
    const last = { ...event, stage: WARNING, message: LAST_MESSAGE };
    this.#append(taskId, "event", limit, (isLast) => (isLast ? encodeEvent(last) : encodeEvent(event, errorCode)));
  }

  /** Returns the progress of a live task's step; undefined when the step has told none. */
  progress(taskId: number): StepProgress | undefined {
    return this.#progress.get(taskId);
  }

  /** Returns the index, from 1, of the task's next step within the stage. */
  nextStep(taskId: number, stage: string): number {
    const steps = this.#steps.get(taskId) ?? new Map<string, number>();
    this.#steps.set(taskId, steps);
    const step = (steps.get(stage) ?? 0) + 1;
    steps.set(stage, step);
    return step;
  }

  appendLine(taskId: number, type: Exclude<OutputType, "event">, line: string): void {
    // Clients print the other outputs to a terminal. Results are data.
    const shown = type === "result" ? line : visible(line);
    const text = shown.length > MAX_LINE_LENGTH ? `${shown.slice(0, MAX_LINE_LENGTH)}...` : shown;
    this.#append(taskId, type, this.#options.maxOutputLinesPerTask, (last) => (last ? LAST_LINE : text));
  }

  /** Resolves when every line appended so far is durable or was dropped; dropped lines are logged. */
  async flush(taskId: number): Promise<void> {
    const writers = OUTPUT_TYPES.map((type) => this.#writers.get(streamOf(taskId, type)));
    // Ends the batching delay of all writers in the same event-loop turn, so that their appends share one commit.
    for (const writer of writers) if (writer?.pending.length) writer.gathering.hurry();
    await Promise.all(writers.map((writer) => writer?.writing));
  }

  /** Returns the number of the task's events, valid after a flush; undefined when this process has written none. */
  eventCount(taskId: number): number | undefined {
    return this.#writers.get(streamOf(taskId, "event"))?.next;
  }

  /** Returns the bytes that this process has written for the task. */
  sizeBytes(taskId: number): number {
    const writers = OUTPUT_TYPES.map((type) => this.#writers.get(streamOf(taskId, type)));
    return writers.reduce((sum, writer) => sum + (writer?.writtenSizeBytes ?? 0), 0);
  }

  /** Releases the task's writers and counters. The task has ended, so at most a few late CPI lines follow. */
  forget(taskId: number): void {
    this.#live.delete(taskId);
    this.#steps.delete(taskId);
    this.#progress.delete(taskId);
    for (const type of OUTPUT_TYPES) this.#writers.delete(streamOf(taskId, type));
  }

  async read(task: LoggedTask, from: number, limit: number): Promise<TaskEvent[]> {
    return (await this.readLines(task, "event", from, limit)).map(decodeEvent);
  }

  /** Returns stored lines, which never change. Events beyond the event count of an ended task are left out. */
  async readLines(task: LoggedTask, type: OutputType, from: number, limit: number): Promise<string[]> {
    const end = (type === "event" ? task.eventCount : undefined) ?? Number.POSITIVE_INFINITY;
    const wanted = Math.max(0, Math.min(limit, end - from));
    return (await this.#options.eventLog.read(streamOf(task.taskId, type), { from, limit: wanted })).lines;
  }

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
        this.#options.log.error({ taskId, error: messageOf(error), failures }, "task log write failed");
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

  /** Backs off after the storage was full. Returns false when the process is stopping, so that no retry follows. */
  async #waitForRoom(failures: number): Promise<boolean> {
    const { clock, stopping } = this.#options;
    await clock.sleep(backoffMs(failures, ROOM_BACKOFF), stopping).catch(() => {});
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
