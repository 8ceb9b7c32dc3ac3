import { setTimeout as delay } from "node:timers/promises";
import type { Task } from "@diskmesh/api/director";
import { DomainError, InvalidStateError, messageOf, NotFoundError } from "@diskmesh/domain";
import type { Random } from "../random.js";
import type { Measures } from "./measures.js";
import type { SoakFleet } from "./soak-fleet.js";
import { underWay } from "./under-way.js";
import type { Violations } from "./violations.js";

/** Context of the operations. */
export interface Soak {
  readonly fleet: SoakFleet;
  readonly measures: Measures;
  readonly violations: Violations;
  /** True when restarts and replacements of processes are the only faults. */
  readonly hasOnlyRestarts: boolean;
  /** Returns whether no new work may begin. */
  readonly isOver: () => boolean;
}

/** One of the concurrent workers of an operation; each uses its own objects. */
export interface Worker {
  /** Number of the worker, from 1. */
  readonly slot: number;
  /** Number of completed rounds of this worker. */
  readonly round: number;
  /** Random numbers of this worker. */
  readonly random: Random;
}

/** Work that callers do with a mesh repeatedly. */
export interface Operation {
  readonly name: string;
  /** Number of concurrent workers. */
  readonly workers: number;
  /**
   * Runs one round, which deletes everything that it created. Throws only for a broken promise, because temporary
   * errors are retried.
   */
  run(soak: Soak, worker: Worker): Promise<void>;
}

/**
 * Time in ms after which a call counts as stuck: a multiple of the longest time for which faults together can delay a
 * call.
 */
export const PATIENCE_MS = 300_000;
const RETRY_MS = 200;
const LONGEST_RETRY_MS = 2_000;
const POLL_MS = 500;
const DEVICE_FAILED = /its device \S+ on host \S+ is in error/;

/** Repeats a call that fails with a temporary error. */
export function persistently<T>(what: string, call: () => Promise<T>): Promise<T> {
  const untilMs = performance.now() + PATIENCE_MS;
  return underWay(what, async (wentWrong) => {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        wentWrong(error);
        if (!passes(error)) throw named(what, error);
        if (performance.now() > untilMs) throw named(`${what}, tried for ${PATIENCE_MS} ms`, error);
        await delay(Math.min(error.retryAfterMs ?? RETRY_MS, LONGEST_RETRY_MS));
      }
    }
  });
}

/** Returns whether the error ends by itself, or with an operator's repair of a failed drive. */
function passes(error: unknown): error is DomainError {
  if (!(error instanceof DomainError)) return false;
  return error.retryable || (error instanceof InvalidStateError && DEVICE_FAILED.test(error.message));
}

function named(what: string, error: unknown): Error {
  const kind = error instanceof Error ? error.constructor.name : typeof error;
  return new Error(`${what}: ${kind}: ${messageOf(error)}`, { cause: error });
}

/** Resolves with false when the call answers NOT_FOUND. */
export async function exists(what: string, call: () => Promise<unknown>): Promise<boolean> {
  try {
    await persistently(what, call);
    return true;
  } catch (error) {
    if (error instanceof Error && error.cause instanceof NotFoundError) return false;
    throw error;
  }
}

type Start = () => Promise<{ task?: Task | undefined }>;

/** Starts a task repeatedly until one succeeds, as a caller does. */
export function runTask(soak: Soak, what: string, start: Start): Promise<Task> {
  const untilMs = performance.now() + PATIENCE_MS;
  return underWay(`${what} until it is done`, async (wentWrong) => {
    for (;;) {
      const { task } = await persistently(what, start);
      if (task === undefined) throw new Error(`${what}: the answer has no task`);
      const ended = await endOf(soak, task);
      if (ended.state === "TASK_STATE_DONE") return ended;
      soak.measures.failed(`task ${ended.type}`, ended.state, ended.result);
      wentWrong(`task ${ended.taskId}: ${ended.state}: ${ended.result}`);
      if (performance.now() > untilMs)
        throw new Error(`${what}: not done for ${PATIENCE_MS} ms: ${ended.state}: ${ended.result}`);
      await delay(RETRY_MS);
    }
  });
}

/** Follows a task until its end; it must exist until then. */
export function endOf(soak: Soak, { taskId, type }: Task): Promise<Task> {
  const untilMs = performance.now() + 2 * PATIENCE_MS;
  const what = `task ${taskId} (${type})`;
  return underWay(`the end of ${what}`, async (wentWrong) => {
    for (;;) {
      const { task } = await persistently(what, () => soak.fleet.clients.tasks.getTask({ taskId }));
      if (task?.endedAt !== undefined) return task;
      wentWrong(`it is ${task?.state}`);
      if (performance.now() > untilMs) throw new Error(`${what} has not ended for ${2 * PATIENCE_MS} ms`);
      await delay(POLL_MS);
    }
  });
}
