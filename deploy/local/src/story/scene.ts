import { setTimeout as sleep } from "node:timers/promises";
import { type Task, TaskState } from "@diskmesh/api/director";
import { DomainError, InvalidStateError, messageOf, TimeoutError } from "@diskmesh/domain";
import type { OperatorClients } from "../mesh/clients.js";
import type { MeshLayout } from "../mesh/layout.js";

const POLL_MS = 50;
const WAIT_TIMEOUT_MS = 60_000;

/** Dependencies of the story's steps. */
export interface Scene {
  readonly layout: MeshLayout;
  readonly clients: OperatorClients;
  /** Aborts when the launcher stops. */
  readonly signal: AbortSignal;
  /** Returns how often processes of the mesh were restarted. */
  readonly restarts: () => number;
}

/**
 * Repeats a query until it returns a result, and retries temporary errors, up to `timeoutMs`. `what` names the awaited
 * state in the timeout's message.
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
 * Runs a task to its end. Starts it again when it failed while a process of the mesh was restarted; all tasks of the
 * story are idempotent.
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
  const now = task.endTime ? task : (await scene.clients.tasks.getTask({ taskId: task.taskId })).task;
  return now?.endTime && now;
}
