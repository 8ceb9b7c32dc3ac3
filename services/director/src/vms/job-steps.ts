import { DomainError, InvalidStateError, TimeoutError } from "@diskmesh/domain";
import { isHostLost } from "../disks/lost-host.js";
import { changeInstance } from "../instances/instance-record.js";
import { type WatchTime, watchPausesMs } from "../specs/update-block.js";
import { formatInstance, type Instance, type JobsState } from "../store/instance.js";
import { SIGN_OF_LIFE_MS, type TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";
import { applyTo } from "./introduce-agent.js";

/**
 * Steps on the jobs of an instance that has a VM, in BOSH's order of calls. Agents that support none of these calls,
 * such as disk-agent, run no jobs. Every step requires the instance's lock.
 */

/** The operation for which an instance's jobs are stopped. */
export type StopIntent = "restart" | "stop" | "delete_vm" | "delete_instance";

export interface StopOptions {
  readonly intent: StopIntent;
  /** Skips pre-stop and drain. */
  readonly skipDrain: boolean;
}

/** Timeout for an agent to accept the start of jobs. The update block limits the time until the jobs run. */
const START_TIMEOUT_MS = 90_000;
/** Time for jobs to stop. Jobs that run longer are left running, as in BOSH. */
const STOP_TIMEOUT_MS = 300_000;
/** Time for the scripts of a kind (pre-start, post-start, pre-stop, post-stop), and for the whole drain. */
const SCRIPT_TIMEOUT_MS = 3_600_000;

/** Starts the jobs and waits until they run. */
export async function startJobs(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  watchTime: WatchTime,
): Promise<void> {
  const { agentId, instanceId } = instance;
  const ask = (method: string, args: readonly unknown[], timeoutMs: number) =>
    run.whileAlive(context.agents.ask(run, agentId, method, args, { timeoutMs }));
  await run.stage("Starting jobs", formatInstance(instance), async () => {
    await applyTo(context, run, instance, START_TIMEOUT_MS);
    await ask("run_script", ["pre-start", {}], SCRIPT_TIMEOUT_MS);
    // An agent that does not support `start` runs no jobs, so there is nothing to wait for.
    if ((await ask("start", [], START_TIMEOUT_MS)) !== undefined) {
      await awaitRunning(context, run, instance, watchTime);
      await ask("run_script", ["post-start", {}], SCRIPT_TIMEOUT_MS);
    }
    await recordJobs(context, instanceId, "started");
  });
}

async function awaitRunning(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  watchTime: WatchTime,
): Promise<void> {
  let state: unknown;
  for (const pauseMs of watchPausesMs(watchTime)) {
    await pause(context, run, pauseMs);
    const timeoutMs = context.limits.agents.requestTimeoutMs;
    state = await context.agents.ask(run, instance.agentId, "get_state", [], { timeoutMs });
    if (textOf(state, "job_state") === "running") return;
  }
  const processes = state instanceof Object && "processes" in state ? state.processes : [];
  const failing = (Array.isArray(processes) ? processes : [])
    .filter((process) => textOf(process, "state") !== "running")
    .map((process) => textOf(process, "name"));
  const which = failing.length === 0 ? "" : `; processes not running: ${failing.slice(0, 10).join(", ")}`;
  throw new InvalidStateError(
    `${formatInstance(instance)} is ${textOf(state, "job_state") || "not running"} after ${watchTime.maxMs} ms (its watch time)${which}; see the logs of its jobs`,
    { about: { instance_id: instance.instanceId } },
  );
}

function textOf(value: unknown, key: string): string {
  const found = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
  return typeof found === "string" ? found.slice(0, 200) : "";
}

/**
 * Stops the jobs. An agent that does not answer is an error unless the VM is about to be deleted. The agent of a lost
 * host is then not asked.
 */
export async function stopJobs(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  { intent, skipDrain }: StopOptions,
): Promise<void> {
  const { agentId, instanceId, vmCid, jobs = "started" } = instance;
  if (jobs === "stopped") return;
  const vmGoes = intent === "delete_vm" || intent === "delete_instance";
  const event = { stage: "Stopping jobs", task: formatInstance(instance) };
  // Recorded first: "stopping" tells readers that the jobs may not run.
  await recordJobs(context, instanceId, "stopping");
  if (vmGoes && (await isHostLost(context, run, agentId, { vmCid, diskCid: "" }))) return;
  try {
    await context.agents.awaitAnswer(run, agentId, context.limits.agents.detachTimeoutMs);
  } catch (error) {
    run.checkpoint();
    if (!(vmGoes && error instanceof DomainError)) throw error;
    run.event({ ...event, state: "failed", message: `${error.message}; its vm is deleted all the same` });
    return;
  }
  await run.stage(event.stage, event.task, () => stopInOrder(context, run, instance, { intent, skipDrain }));
  await recordJobs(context, instanceId, "stopped");
}

async function stopInOrder(
  context: VmJobContext,
  run: TaskRun,
  { agentId }: Instance,
  { intent, skipDrain }: StopOptions,
): Promise<void> {
  const ask = (method: string, args: readonly unknown[], timeoutMs = SCRIPT_TIMEOUT_MS) =>
    run.whileAlive(context.agents.ask(run, agentId, method, args, { timeoutMs }));
  if (!skipDrain) {
    await ask("run_script", ["pre-stop", { env: preStopEnv(intent) }]);
    await drain(context, run, intent, ask);
  }
  try {
    await ask("stop", [], STOP_TIMEOUT_MS);
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof TimeoutError)) throw error;
  }
  await ask("run_script", ["post-stop", {}]);
}

type Ask = (method: string, args: readonly unknown[], timeoutMs?: number) => Promise<unknown>;

/**
 * Runs the drain. A non-negative answer is the remaining drain time in s; a negative answer is the delay in s until the
 * next status request.
 */
async function drain(context: VmJobContext, run: TaskRun, intent: StopIntent, ask: Ask): Promise<void> {
  const { clock } = context;
  const endAtMs = clock.monotonicMs() + SCRIPT_TIMEOUT_MS;
  // `update` requires a spec argument, which is empty for an agent without jobs.
  let answer = await ask("drain", intent === "restart" ? ["update", {}] : ["shutdown"]);
  for (;;) {
    const seconds = typeof answer === "number" && Number.isFinite(answer) ? answer : 0;
    if (clock.monotonicMs() + Math.abs(seconds) * 1_000 > endAtMs)
      throw new TimeoutError(
        `its jobs are still draining after ${SCRIPT_TIMEOUT_MS} ms: repeat the request with skip_drain`,
      );
    await pause(context, run, Math.abs(seconds) * 1_000);
    if (seconds >= 0) return;
    answer = await ask("drain", ["status"]);
  }
}

function preStopEnv(intent: StopIntent): Record<string, string> {
  return {
    BOSH_VM_NEXT_STATE: intent === "delete_vm" || intent === "delete_instance" ? "delete" : "keep",
    BOSH_INSTANCE_NEXT_STATE: intent === "delete_instance" ? "delete" : "keep",
    BOSH_DEPLOYMENT_NEXT_STATE: "keep",
  };
}

async function recordJobs(context: VmJobContext, instanceId: string, jobs: JobsState): Promise<void> {
  await changeInstance(context, instanceId, (current) => ({ ...current, jobs }));
}

async function pause(context: VmJobContext, run: TaskRun, durationMs: number): Promise<void> {
  for (let leftMs = durationMs; leftMs > 0; leftMs -= SIGN_OF_LIFE_MS) {
    await context.clock.sleep(Math.min(leftMs, SIGN_OF_LIFE_MS), run.stopped);
    run.checkpoint();
  }
}
