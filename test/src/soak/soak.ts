import { setTimeout as delay } from "node:timers/promises";
import type { Task } from "@diskmesh/api/director";
import { DomainError, InvalidStateError, messageOf, NotFoundError } from "@diskmesh/domain";
import type { Random } from "../random.js";
import type { Measures } from "./measures.js";
import type { SoakFleet } from "./soak-fleet.js";
import { underWay } from "./under-way.js";
import type { Violations } from "./violations.js";

/** The context of operations. */
export interface Soak {
  readonly fleet: SoakFleet;
  readonly measures: Measures;
  readonly violations: Violations;
  /** True when the only faults are replaced processes. */
  readonly hasOnlyRestarts: boolean;
  /** Returns true when nothing more is to be begun. */
  readonly isOver: () => boolean;
}

/** One of those that do the same kind of work side by side, each with things of its own. */
export interface Worker {
  /** From 1. */
  readonly slot: number;
  /** How many rounds this one has done before. */
  readonly round: number;
  /** In [0, 1). */
  readonly random: Random;
}

/** Something that callers do with a mesh, again and again. */
export interface Operation {
  readonly name: string;
  /** So many at once. */
  readonly workers: number;
  /** From nothing to nothing left. What it throws is a broken promise, as nothing that passes is thrown. */
  run(soak: Soak, worker: Worker): Promise<void>;
}

/** The longest that faults together can hold up one call, and a multiple of it: what takes longer is stuck. */
export const PATIENCE_MS = 300_000;
const RETRY_MS = 200;
const LONGEST_RETRY_MS = 2_000;
const POLL_MS = 500;
const DEVICE_FAILED = /its device \S+ on host \S+ is in error/;

/** Repeats a call while it fails as something that passes. */
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

/** Returns true for an error that ends by itself, or by what an operator does about a failed drive. */
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

/** Starts a task again and again until one has ended well, as callers do that want the thing done. */
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

/** A task that was answered is there until it has ended, and ends. */
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
