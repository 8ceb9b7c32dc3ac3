import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { Job, Task } from "../store/task.js";
import type { TaskRun } from "./task-run.js";

/**
 * Returns the active trace context, to be stored with a task that runs later, perhaps in another process; undefined for
 * none.
 */
export function activeTraceParent(): string | undefined {
  const headers: { traceparent?: string } = {};
  propagation.inject(context.active(), headers);
  return headers.traceparent;
}

/**
 * Runs the work in a span of the trace of the request that started the task. The task's debug output names the trace.
 */
export function inTaskSpan<Result>(
  task: Task | undefined,
  run: Pick<TaskRun, "taskId" | "requestId" | "output">,
  work: () => Promise<Result>,
): Promise<Result> {
  if (task === undefined) return context.with(ROOT_CONTEXT, work);
  const { type, job, traceParent } = task;
  const parent =
    traceParent === undefined ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, { traceparent: traceParent });
  const attributes = { "diskmesh.task_id": run.taskId, "diskmesh.request_id": run.requestId, ...aboutOf(job) };
  const tracer = trace.getTracer("@diskmesh/director");
  return tracer.startActiveSpan(`task ${type}`, { kind: SpanKind.INTERNAL, attributes }, parent, async (span) => {
    if (span.isRecording()) run.output("debug", `trace ${span.spanContext().traceId}`);
    try {
      return await work();
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}

function aboutOf(job: Job | null): Record<string, string> {
  const about: Record<string, string> = {};
  if (job === null) return about;
  if ("diskName" in job) about["diskmesh.disk_name"] = job.diskName;
  if ("diskCid" in job) about["diskmesh.disk_id"] = job.diskCid;
  if ("instanceId" in job && job.instanceId !== undefined) about["diskmesh.instance_id"] = job.instanceId;
  if ("vmCid" in job) about["diskmesh.vm_cid"] = job.vmCid;
  return about;
}
