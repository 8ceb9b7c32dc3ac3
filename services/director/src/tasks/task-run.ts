import { setMaxListeners } from "node:events";
import { messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { LaneLocks, LockKeeper } from "../locks/lock-keeper.js";
import type { CallerSignals } from "./caller-signals.js";
import { ERROR, type TaskEvent } from "./task-event.js";
import type { TaskLog } from "./task-log.js";

/** Thrown at a checkpoint of a task that must stop. */
class StopRequested extends Error {
  override readonly name = "StopRequested";
}

const LINES_AT_ONCE = 500;
/** Renewal interval of a waiting task's locks, in ms. */
export const SIGN_OF_LIFE_MS = 5_000;

/** Records how far a step is. */
export type TellProgress = (progress: { readonly percent: number; readonly text: string }) => void;

/** A task while a worker runs it. */
export class TaskRun implements CallerSignals {
  readonly requestId: string;
  /** Disk that the task is about, for the log. Known before a task deletes the disk, and after one has created it. */
  disk: { readonly diskName: string; readonly diskCid: string } | undefined;
  // Each task has its own signals, because a shared signal would collect a listener for every call under way.
  readonly #stopping: AbortController;
  readonly #stop: AbortController;

  constructor(
    readonly taskId: number,
    private readonly taskLog: TaskLog,
    private readonly clock: Clock,
    private readonly locks: LockKeeper,
    private readonly lane?: { readonly of: TaskRun; readonly locks: LaneLocks },
  ) {
    this.requestId = `task-${taskId}`;
    this.#stopping = lane === undefined ? new AbortController() : lane.of.#stopping;
    this.#stop = lane === undefined ? new AbortController() : lane.of.#stop;
    // The listener limit is off, because the calls of all lanes listen to these signals and Node would report a
    // listener leak.
    setMaxListeners(0, this.#stopping.signal, this.#stop.signal);
  }

  /** Runs a part of the task as a lane: with its own locks, and concurrently with the task's other lanes. */
  async inLane<Result>(work: (run: TaskRun, locks: LaneLocks) => Promise<Result>): Promise<Result> {
    const locks = this.locks.openLane(this.taskId);
    try {
      return await work(new TaskRun(this.taskId, this.taskLog, this.clock, this.locks, { of: this, locks }), locks);
    } finally {
      locks.release();
    }
  }

  /** Aborted when the process ends. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Aborted when the task must stop or the process ends. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  stop(): void {
    this.#stop.abort(new StopRequested(`task ${this.taskId} was told to stop`));
  }

  /** Stops the task and cuts off its calls, because the process ends. */
  interrupt(): void {
    this.#stopping.abort(new StopRequested("the director stops"));
    this.stop();
  }

  /** Throws if the task must stop. Called where no work is under way; also renews the locks. */
  checkpoint(): void {
    this.#stop.signal.throwIfAborted();
    this.signOfLife();
  }

  /** Renews the task's locks. Called while an operation with a timeout of its own is under way. */
  signOfLife(): void {
    this.locks.renew(this.taskId);
    this.lane?.locks.renew();
  }

  /** Renews the task's locks until the work settles. The work must have a timeout of its own. */
  async whileAlive<Result>(work: Promise<Result>): Promise<Result> {
    const beat = setInterval(() => this.signOfLife(), SIGN_OF_LIFE_MS);
    try {
      return await work;
    } finally {
      clearInterval(beat);
    }
  }

  /** Runs a step between its started and finished events. `why` is the message of the started event. */
  async stage<T>(
    stage: string,
    task: string,
    work: (tell: TellProgress) => Promise<T>,
    why = "",
    of: { readonly tags?: readonly string[]; readonly total?: number } = {},
  ): Promise<T> {
    this.checkpoint();
    const step = { stage, task, ...of, index: this.taskLog.nextStep(this.taskId, stage) };
    this.event({ ...step, state: "started", message: why });
    try {
      const result = await work(({ percent, text }) =>
        this.event({ ...step, state: "in_progress", percent, message: text }),
      );
      this.event({ ...step, state: "finished", message: "" });
      return result;
    } catch (error) {
      this.event({ ...step, state: "failed", message: messageOf(error) });
      throw error;
    }
  }

  /**
   * Records an observation or decision as a step without duration, because BOSH's clients show a step's name and not
   * its message.
   */
  note(stage: string, task: string): void {
    for (const state of ["started", "finished"] as const) this.event({ stage, task, state, message: "" });
  }

  output(type: "cpi" | "debug", line: string): void {
    this.taskLog.appendLine(this.taskId, type, line);
  }

  /** Appends many lines in batches with a flush after each, so that none is dropped for lack of buffer space. */
  async putOut(type: "result", lines: readonly string[]): Promise<void> {
    for (let at = 0; at < lines.length; at += LINES_AT_ONCE) {
      for (const line of lines.slice(at, at + LINES_AT_ONCE)) this.taskLog.appendLine(this.taskId, type, line);
      await this.taskLog.flush(this.taskId);
    }
  }

  /** Appends an event; without an index the event is the next step of its stage. */
  event(event: Pick<TaskEvent, "stage" | "task" | "state" | "message"> & Partial<TaskEvent>): void {
    const index = event.index ?? this.taskLog.nextStep(this.taskId, event.stage);
    this.taskLog.append(this.taskId, { timeMs: this.clock.nowMs(), tags: [], total: 0, ...event, index });
  }

  /** Appends the task's last event, which reports the failure of the whole task. */
  failure(message: string, errorCode: number): void {
    const step = { timeMs: this.clock.nowMs(), tags: [], total: 0, index: 0, task: "" };
    this.taskLog.append(this.taskId, { ...step, stage: ERROR, state: "failed", message }, errorCode);
  }
}
