import { setMaxListeners } from "node:events";
import { messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { LaneLocks, LockKeeper } from "../locks/lock-keeper.js";
import type { CallerSignals } from "./caller-signals.js";
import { ERROR, type TaskEvent } from "./task-event.js";
import type { TaskLog } from "./task-log.js";

/** Thrown where a task that shall stop can do so cleanly. */
class StopRequested extends Error {
  override readonly name = "StopRequested";
}

const LINES_AT_ONCE = 500;
/** At most so long is a task without one while it waits. */
export const SIGN_OF_LIFE_MS = 5_000;

/** One task while a worker runs it. */
export class TaskRun implements CallerSignals {
  readonly requestId: string;
  // Signals of this task alone: shared ones would gather a listener for every call under way.
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
    // Each lane's calls listen. Without this, Node reports a leak beside the log.
    setMaxListeners(0, this.#stopping.signal, this.#stop.signal);
  }

  /** Does a part of the work that holds locks of its own, beside other such parts. */
  async inLane<Result>(work: (run: TaskRun, locks: LaneLocks) => Promise<Result>): Promise<Result> {
    const locks = this.locks.openLane(this.taskId);
    try {
      return await work(new TaskRun(this.taskId, this.taskLog, this.clock, this.locks, { of: this, locks }), locks);
    } finally {
      locks.release();
    }
  }

  /** The process ends. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** The task shall stop, or the process. */
  get stopped(): AbortSignal {
    return this.#stop.signal;
  }

  stop(): void {
    this.#stop.abort(new StopRequested(`task ${this.taskId} shall stop`));
  }

  /** Because the process ends: calls under way are cut off, too. */
  interrupt(): void {
    this.#stopping.abort(new StopRequested("the director stops"));
    this.stop();
  }

  /** Nothing is under way here: a good place to stop. */
  checkpoint(): void {
    this.#stop.signal.throwIfAborted();
    this.signOfLife();
  }

  /** Puts off the deadlines of its locks: something with a limit of its own is under way. */
  signOfLife(): void {
    this.locks.renew(this.taskId);
    this.lane?.locks.renew();
  }

  /** Awaits what may take longer than locks are held without a sign of life, and has a limit of its own. */
  async whileAlive<Result>(work: Promise<Result>): Promise<Result> {
    const beat = setInterval(() => this.signOfLife(), SIGN_OF_LIFE_MS);
    try {
      return await work;
    } finally {
      clearInterval(beat);
    }
  }

  /** Runs one step between two events; the first may say why. */
  async stage<T>(
    stage: string,
    task: string,
    work: () => Promise<T>,
    why = "",
    of: { readonly tags?: readonly string[]; readonly total?: number } = {},
  ): Promise<T> {
    this.checkpoint();
    const step = { stage, task, ...of, index: this.taskLog.nextStep(this.taskId, stage) };
    this.event({ ...step, state: "started", message: why });
    try {
      const result = await work();
      this.event({ ...step, state: "finished", message: "" });
      return result;
    } catch (error) {
      this.event({ ...step, state: "failed", message: messageOf(error) });
      throw error;
    }
  }

  /** Something that was seen or settled, as a step of no length: BOSH's clients show a step's name, not its message. */
  note(stage: string, task: string): void {
    for (const state of ["started", "finished"] as const) this.event({ stage, task, state, message: "" });
  }

  output(type: "cpi" | "debug", line: string): void {
    this.taskLog.appendLine(this.taskId, type, line);
  }

  /** Many lines, none of which is lost because too many wait. */
  async putOut(type: "result", lines: readonly string[]): Promise<void> {
    for (let at = 0; at < lines.length; at += LINES_AT_ONCE) {
      for (const line of lines.slice(at, at + LINES_AT_ONCE)) this.taskLog.appendLine(this.taskId, type, line);
      await this.taskLog.flush(this.taskId);
    }
  }

  /** Without an index it is a step of its own. */
  event(event: Pick<TaskEvent, "stage" | "task" | "state" | "message"> & Partial<TaskEvent>): void {
    const index = event.index ?? this.taskLog.nextStep(this.taskId, event.stage);
    this.taskLog.append(this.taskId, { timeMs: this.clock.nowMs(), tags: [], total: 0, ...event, index });
  }

  /** How the task as a whole failed: its last event. */
  failure(message: string, errorCode: number): void {
    const step = { timeMs: this.clock.nowMs(), tags: [], total: 0, index: 0, task: "" };
    this.taskLog.append(this.taskId, { ...step, stage: ERROR, state: "failed", message }, errorCode);
  }
}
