import {
  backoffMs,
  DomainError,
  DriverError,
  InvalidStateError,
  messageOf,
  NotFoundError,
  OutdatedError,
} from "@diskmesh/domain";
import { formatMethod } from "../audit/director-event.js";
import { nodeErrorText } from "../store/node-error.js";
import { type DirectorTransaction, taskKey } from "../store/schema.js";
import type { JobOf } from "../store/task.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun, TellProgress } from "../tasks/task-run.js";
import type { VendorJobContext } from "./context.js";
import { lockOf } from "./node-lock.js";

type CallJob = JobOf<"call_vendor_method">;

/** Maximum nodes with a stored last error. Beyond it the oldest error is deleted. */
const MAX_LAST_ERRORS = 10_000;
const RETRY_BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };

/**
 * Runs an asynchronous method. The start id of the agent or director that runs the method is recorded first. That
 * process runs the method once, however often it is requested, and no other process starts the method again.
 */
export const callVendorMethod: Planner<"call_vendor_method", VendorJobContext> = (context, job) => ({
  locks: job.exclusiveLock && job.nodeId !== "" ? [lockOf(job.nodeId)] : [],
  // Tasks of the same node or driver share workers, so that a hanging node or driver blocks no others.
  cpis: [job.nodeId === "" ? `driver ${job.driver}` : `node ${job.nodeId}`],
  run: async (run) => {
    try {
      return await (job.begunOn === undefined ? begin(context, run, job) : finish(context, run, job, job.begunOn));
    } catch (error) {
      if (job.nodeId !== "" && !run.stopped.aborted && error instanceof DomainError)
        await noteFailure(context, run, job, error.message);
      throw error;
    }
  },
});

async function begin(context: VendorJobContext, run: TaskRun, job: CallJob): Promise<undefined> {
  run.checkpoint();
  if (context.vendors.memory.argsOf(run.taskId, job) === undefined) throw notBegun(job);
  const begunOn = job.nodeId === "" ? context.vendors.startId : await bootIdOf(context, run, job.nodeId);
  await context.tablet.transact((tx) => {
    const task = tx.tasks.get(taskKey(run.taskId));
    if (task?.job?.type !== "call_vendor_method") return;
    tx.tasks.put({ ...task, job: { ...task.job, begunOn } });
    tx.nodeErrors.delete(job.nodeId);
  });
}

function finish(context: VendorJobContext, run: TaskRun, job: CallJob, begunOn: string): Promise<string> {
  return run.stage("Calling vendor method", formatMethod(job), (tell) =>
    job.nodeId === "" ? inDirector(context, run, job, begunOn, tell) : onNode(context, run, job, begunOn, tell),
  );
}

async function inDirector(
  { vendors }: VendorJobContext,
  run: TaskRun,
  job: CallJob,
  begunOn: string,
  tell: TellProgress,
): Promise<string> {
  if (begunOn !== vendors.startId)
    throw new DriverError("the director ended while the method ran: the method's outcome is not known");
  const { host, memory } = vendors;
  const { driver, method, httpMethod } = job;
  const args = memory.argsOf(run.taskId, job);
  if (args === undefined) throw notBegun(job);
  const callId = String(run.taskId);
  const timeoutMs = host.timeoutOf(driver, "driver", method);
  const called = { kind: "driver", method, httpMethod, args, nodeId: "", timeoutMs } as const;
  const { ended, progress } = memory.kept.get(callId) ?? memory.kept.begin(host, callId, driver, called);
  const cancel = () => memory.kept.cancel(callId);
  run.stopped.addEventListener("abort", cancel);
  if (run.stopped.aborted) cancel();
  try {
    let outcome: Awaited<typeof ended> | undefined;
    for (let seen = 0; outcome === undefined; ) {
      outcome = await Promise.race([ended, progress.after(seen).then(() => undefined)]);
      if (outcome !== undefined || progress.latest === undefined) continue;
      seen = progress.latest.number;
      tell(progress.latest);
    }
    if (outcome.failed) throw new DriverError(outcome.message);
    return outcome.text;
  } finally {
    run.stopped.removeEventListener("abort", cancel);
  }
}

/** Polls the agent until it reports the call's outcome. */
async function onNode(
  context: VendorJobContext,
  run: TaskRun,
  job: CallJob,
  bootId: string,
  tell: TellProgress,
): Promise<string> {
  const { vendors, tablet } = context;
  const { nodeId, driver, method, httpMethod } = job;
  const callId = `${tablet.incarnation}-${run.taskId}`;
  const args = vendors.memory.argsOf(run.taskId, job);
  const request = { bootId, revision: "", callId, driver, method, httpMethod, validateOnly: false };
  let toldToEnd = false;
  let seenProgress = 0;
  for (let failures = 0; ; ) {
    const stops = run.stopped.aborted;
    try {
      const { client } = await vendors.nodes.find(nodeId, run.stopping, { fresh: failures > 0 });
      if (stops && !toldToEnd) {
        toldToEnd = true;
        await client.cancelMethod({ callId }, { signal: run.stopping });
      }
      const options = { signal: stops ? run.stopping : run.stopped, deadlineMs: vendors.callTimeoutMs };
      // joinMethod waits for a call that has begun and begins none. A call that must stop or whose secrets are lost is
      // therefore only joined.
      const { outcome, progress } = await (stops || args === undefined
        ? client.joinMethod({ bootId, callId, seenProgress }, options)
        : client.callMethod({ ...request, args, seenProgress }, options));
      failures = 0;
      if (outcome?.$case === "failure") throw new MethodFailed(outcome.value.message);
      if (outcome?.$case === "value") return String(outcome.value);
      if (progress !== undefined && progress.number > seenProgress) {
        seenProgress = progress.number;
        tell(progress);
      }
      run.signOfLife();
    } catch (error) {
      if (error instanceof MethodFailed) throw new DriverError(error.message);
      if (error instanceof NotFoundError && error.about.call_id !== undefined) throw stops ? error : notBegun(job);
      if (error instanceof OutdatedError)
        throw new DriverError(
          `the agent of node ${nodeId} ended while the method ran: the method's outcome is not known`,
        );
      if (run.stopping.aborted) throw error;
      // The task was stopped during the request, so the next round cancels the call.
      if (run.stopped.aborted && !stops) continue;
      if (stops || (error instanceof DomainError && !error.retryable))
        throw new DriverError(`the outcome of method ${method} on node ${nodeId} is not known: ${messageOf(error)}`);
      // The agent is unreachable and may still run the method.
      await pause(context, run, failures++);
    }
  }
}

function notBegun({ method, secretArgs }: CallJob): InvalidStateError {
  const secrets = secretArgs.join(", ");
  return new InvalidStateError(
    `method ${method} was not called: its secret arguments (${secrets}) are never stored, and the director that had them in memory has ended; call the method again`,
  );
}

class MethodFailed extends Error {}

async function bootIdOf(context: VendorJobContext, run: TaskRun, nodeId: string): Promise<string> {
  for (let failures = 0; ; failures++) {
    try {
      return (await context.vendors.nodes.find(nodeId, run.stopped, { fresh: true })).bootId;
    } catch (error) {
      if (run.stopped.aborted || !(error instanceof DomainError) || !error.retryable) throw error;
      await pause(context, run, failures);
    }
  }
}

async function pause({ clock }: VendorJobContext, run: TaskRun, failures: number): Promise<void> {
  run.signOfLife();
  await clock.sleep(backoffMs(failures, RETRY_BACKOFF), run.stopping);
}

function noteFailure(
  context: VendorJobContext,
  run: TaskRun,
  { nodeId, method }: CallJob,
  text: string,
): Promise<void> {
  const error = { nodeId, text: nodeErrorText(method, text), taskId: run.taskId, atMs: context.clock.nowMs() };
  return context.tablet.transact((tx: DirectorTransaction) => {
    tx.nodeErrors.put(error);
    if (tx.nodeErrors.size <= MAX_LAST_ERRORS) return;
    const oldest = [...tx.nodeErrors.entries()].reduce((a, b) => (a.atMs <= b.atMs ? a : b));
    tx.nodeErrors.delete(oldest.nodeId);
  });
}
