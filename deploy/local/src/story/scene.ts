import { setTimeout as sleep } from "node:timers/promises";
import { type Task, TaskState } from "@diskmesh/api/director";
import { DomainError, InvalidStateError, messageOf, TimeoutError } from "@diskmesh/domain";
import type { OperatorClients } from "../clients.js";
import type { MeshLayout } from "../layout.js";

const POLL_MS = 50;
const WAIT_TIMEOUT_MS = 60_000;

/** What the steps of the story work with. */
export interface Scene {
  readonly layout: MeshLayout;
  readonly clients: OperatorClients;
  /** The launcher is stopping. */
  readonly signal: AbortSignal;
  /** How often a process of the mesh was started again so far. */
  readonly restarts: () => number;
}

/**
 * Asks until there is an answer. Errors that may pass are met by asking again, until `timeoutMs`; `what` names what is
 * waited for, as it is when the time is over.
 */
export async function waitFor<T>(
  scene: Scene,
  what: string | (() => string),
  ask: () => Promise<T | undefined>,
  timeoutMs = WAIT_TIMEOUT_MS,
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  let lastError: unknown;
  while (performance.now() < deadlineMs) {
    scene.signal.throwIfAborted();
    try {
      const answer = await ask();
      if (answer !== undefined) return answer;
      lastError = undefined;
    } catch (error) {
      if (!(error instanceof DomainError) || !error.retryable) throw error;
      lastError = error;
    }
    await sleep(POLL_MS);
  }
  const reason = lastError === undefined ? "" : `: ${messageOf(lastError)}`;
  const named = typeof what === "string" ? what : what();
  throw new TimeoutError(`waited ${timeoutMs / 1000} s in vain for ${named}${reason}`);
}

/**
 * Starts a task and waits for its end. A task that failed while a process of the mesh was down is started again: every
 * task of the story converges.
 */
export async function runTask(
  scene: Scene,
  what: string,
  start: () => Promise<{ task?: Task | undefined }>,
): Promise<void> {
  for (;;) {
    const restartsBefore = scene.restarts();
    const task = await waitFor(scene, `the director to take the task: ${what}`, async () => (await start()).task);
    const ended = await waitFor(scene, `task ${task.taskId} to end: ${what}`, () => endedTask(scene, task));
    if (ended.state === TaskState.DONE) return;
    if (scene.restarts() === restartsBefore)
      throw new InvalidStateError(`${what}: task ${ended.taskId} ended as ${ended.state}: ${ended.result}`);
  }
}

async function endedTask(scene: Scene, task: Task): Promise<Task | undefined> {
  const now = hasEnded(task) ? task : (await scene.clients.tasks.getTask({ taskId: task.taskId })).task;
  return now && hasEnded(now) ? now : undefined;
}

function hasEnded({ state }: Task): boolean {
  return (
    state === TaskState.DONE ||
    state === TaskState.ERROR ||
    state === TaskState.CANCELLED ||
    state === TaskState.TIMEOUT
  );
}
