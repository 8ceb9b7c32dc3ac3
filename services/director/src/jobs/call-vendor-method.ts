import { backoffMs, DomainError, DriverError, messageOf, OutdatedError, Redactor } from "@diskmesh/domain";
import { nodeErrorText } from "../model/node-error.js";
import { type DirectorTransaction, taskKey } from "../model/schema.js";
import type { JobOf } from "../model/task.js";
import { formatMethod } from "../model/vendor-method.js";
import { lockOf } from "../passthru/node-lock.js";
import type { JobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

type CallJob = JobOf<"call_vendor_method">;

const RETRY_BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };

/**
 * Runs an asynchronous method. By whom it is run is recorded before it is: that start of an agent, or of this director,
 * runs it once, however often it is asked, and no other one begins it again.
 */
export const callVendorMethod: Planner<"call_vendor_method"> = (context, job) => ({
  locks: job.exclusiveLock && job.nodeId !== "" ? [lockOf(job.nodeId)] : [],
  // Tasks of one node, or of one driver, share workers: none that hangs keeps others waiting.
  cpis: [job.nodeId === "" ? `driver ${job.driver}` : `node ${job.nodeId}`],
  run: (run) => (job.begunOn === undefined ? begin(context, run, job) : finish(context, run, job, job.begunOn)),
});

async function begin(context: JobContext, run: TaskRun, job: CallJob): Promise<undefined> {
  run.checkpoint();
  const begunOn = job.nodeId === "" ? context.vendors.startId : await bootIdOf(context, run, job.nodeId);
  await context.tablet.transact((tx) => {
    const task = tx.tasks.get(taskKey(run.taskId));
    if (task?.job?.type !== "call_vendor_method") return;
    tx.tasks.put({ ...task, job: { ...task.job, begunOn } });
    tx.nodeErrors.delete(job.nodeId);
  });
}

async function finish(context: JobContext, run: TaskRun, job: CallJob, begunOn: string): Promise<string> {
  const redactor = new Redactor(job.secretArgs.map((name) => job.args[name]));
  try {
    return await run.stage("Calling vendor method", formatMethod(job), async () => {
      const value =
        job.nodeId === "" ? await inDirector(context, run, job, begunOn) : await onNode(context, run, job, begunOn);
      return redactor.text(typeof value === "string" ? value : JSON.stringify(value));
    });
  } catch (error) {
    if (run.stopped.aborted || !(error instanceof DomainError)) throw error;
    const text = redactor.text(messageOf(error));
    if (job.nodeId !== "") await noteFailure(context, run, job, text);
    throw new DriverError(text, { cause: error });
  }
}

async function inDirector({ vendors }: JobContext, run: TaskRun, job: CallJob, begunOn: string): Promise<unknown> {
  if (begunOn !== vendors.startId)
    throw new DriverError("the director ended while the method ran: what the method has done is not known");
  const { driver, method, httpMethod, args } = job;
  return vendors.host.call(driver, {
    kind: "driver",
    method,
    httpMethod,
    args,
    nodeId: "",
    validateOnly: false,
    timeoutMs: vendors.asyncTimeoutMs,
    signal: run.stopped,
  });
}

/** Asks the agent until it says what came of the call. */
async function onNode(context: JobContext, run: TaskRun, job: CallJob, bootId: string): Promise<unknown> {
  const { vendors, tablet } = context;
  const { nodeId, driver, method, httpMethod, args } = job;
  const callId = `${tablet.incarnation}-${run.taskId}`;
  const request = { bootId, revision: "", callId, driver, method, httpMethod, args, validateOnly: false };
  let toldToEnd = false;
  for (let failures = 0; ; ) {
    const stops = run.stopped.aborted;
    try {
      const { client } = await vendors.nodes.find(nodeId, run.stopping, { fresh: failures > 0 });
      if (stops && !toldToEnd) {
        toldToEnd = true;
        await client.cancelMethod({ callId }, { signal: run.stopping });
      }
      const options = { signal: stops ? run.stopping : run.stopped, deadlineMs: vendors.callTimeoutMs };
      const { outcome } = await client.callMethod(request, options);
      failures = 0;
      if (outcome?.$case === "failure") throw new MethodFailed(outcome.value.message);
      if (outcome?.$case === "value") return outcome.value;
      run.signOfLife();
    } catch (error) {
      if (error instanceof MethodFailed) throw new DriverError(error.message);
      if (error instanceof OutdatedError)
        throw new DriverError(`the agent of node ${nodeId} ended while the method ran: what it has done is not known`);
      if (run.stopping.aborted) throw error;
      // Stopped while it was asked: now it is told to end.
      if (run.stopped.aborted && !stops) continue;
      if (stops || (error instanceof DomainError && !error.retryable))
        throw new DriverError(`what method ${method} has done on node ${nodeId} is not known: ${messageOf(error)}`);
      // It cannot be reached, and may be at work.
      await pause(context, run, failures++);
    }
  }
}

class MethodFailed extends Error {}

async function bootIdOf(context: JobContext, run: TaskRun, nodeId: string): Promise<string> {
  for (let failures = 0; ; failures++) {
    try {
      return (await context.vendors.nodes.find(nodeId, run.stopped, { fresh: true })).bootId;
    } catch (error) {
      if (run.stopped.aborted || !(error instanceof DomainError) || !error.retryable) throw error;
      await pause(context, run, failures);
    }
  }
}

async function pause({ clock, random }: JobContext, run: TaskRun, failures: number): Promise<void> {
  run.signOfLife();
  await clock.sleep(backoffMs(failures, RETRY_BACKOFF, random()), run.stopping);
}

function noteFailure(context: JobContext, run: TaskRun, { nodeId, method }: CallJob, text: string): Promise<void> {
  const { maxLastErrors } = context.config.nodes;
  const error = { nodeId, text: nodeErrorText(method, text), taskId: run.taskId, atMs: context.clock.nowMs() };
  return context.tablet.transact((tx: DirectorTransaction) => {
    tx.nodeErrors.put(error);
    if (tx.nodeErrors.size <= maxLastErrors) return;
    const oldest = [...tx.nodeErrors.entries()].reduce((a, b) => (a.atMs <= b.atMs ? a : b));
    tx.nodeErrors.delete(oldest.nodeId);
  });
}
