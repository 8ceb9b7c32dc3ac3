import type { IoLimits } from "@diskmesh/domain";
import { MIB_BYTES } from "@diskmesh/domain";
import type { Retry, TaskPanelAnswer, TaskStep } from "@diskmesh/page/rows";
import type { DirectorTables } from "../store/schema.js";
import type { Job, Task } from "../store/task.js";
import type { TaskContext } from "../tasks/context.js";
import { isRepeatable } from "../tasks/task.js";
import { ERROR, type TaskEvent, WARNING } from "../tasks/task-event.js";

const EVENTS_PER_READ = 1_000;
const MAX_EVENTS = 10_000;
/** Latest steps that the page gets. */
const MAX_STEPS = 100;

/** Returns what the panel of a task shows beside its row. */
export async function taskPanel(
  { taskLog, tablet }: Pick<TaskContext, "taskLog" | "tablet">,
  task: Task,
): Promise<TaskPanelAnswer> {
  const events: TaskEvent[] = [];
  for (let read = EVENTS_PER_READ; read === EVENTS_PER_READ && events.length < MAX_EVENTS; ) {
    const more = await taskLog.read(task, events.length, EVENTS_PER_READ);
    events.push(...more);
    read = more.length;
  }
  const steps = stepsOf(events);
  const retry = await tablet.read((tables) => retryOf(task, tables));
  return {
    steps: steps.slice(-MAX_STEPS),
    omitted: Math.max(0, steps.length - MAX_STEPS),
    attempts: task.attempts,
    ...(retry && { retry }),
  };
}

/** Returns each step once, in the order of their starts, as its last event tells it. */
export function stepsOf(events: readonly TaskEvent[]): TaskStep[] {
  const steps = new Map<string, TaskStep>();
  for (const { stage, tags, task, index, state, timeMs, message, percent } of events) {
    // The explanation of a failed task has the error.
    if (stage === ERROR) continue;
    const isWarning = stage === WARNING;
    const key = isWarning ? `${stage} ${steps.size}` : JSON.stringify([stage, tags, task, index]);
    const name = isWarning ? stage : [[stage, ...tags].join(" "), task].filter(Boolean).join(": ");
    const told = percent === undefined ? message : [`${percent} %`, message].filter(Boolean).join(": ");
    const isOver = state === "finished" || state === "failed";
    const startedMs = steps.get(key)?.startedMs ?? timeMs;
    steps.set(key, {
      ...{ name, startedMs, message: told },
      state: isOver ? (state === "failed" ? "error" : "done") : "processing",
      ...(isOver && { endedMs: timeMs }),
    });
  }
  return [...steps.values()];
}

/** Returns the page's action that does a failed task again, with the task's values; undefined when it has none. */
export function retryOf({ job }: Pick<Task, "job">, tables: Pick<DirectorTables, "disks">): Retry | undefined {
  if (job === null || !isRepeatable(job)) return undefined;
  const diskCid = "diskName" in job ? tables.disks.get(job.diskName)?.diskCid : undefined;
  const onDisk = (action: string, values: Retry["values"] = {}): Retry | undefined =>
    diskCid ? { kind: "disk", name: diskCid, action, values } : undefined;
  switch (job.type) {
    case "provide_dynamic_disk":
      return provideAgain(job);
    case "attach_dynamic_disk":
      return onDisk("attach", { to: job.hostId ?? job.instanceId });
    case "resize_dynamic_disk":
      return onDisk("resize", { size: `${job.sizeMib}MiB` });
    case "set_dynamic_disk_limits":
      return onDisk("limits", limitTexts(job.limits));
    case "detach_dynamic_disk":
      return onDisk("detach");
    case "delete_dynamic_disk":
      return onDisk("delete");
    case "undelete_dynamic_disk":
      return job.diskCid === "" ? undefined : { kind: "disk", name: job.diskCid, action: "undelete", values: {} };
    default:
      return undefined;
  }
}

function provideAgain({ diskName, hostId, pool, sizeMib }: Extract<Job, { type: "provide_dynamic_disk" }>) {
  if (hostId === undefined) return undefined;
  const values = { disk_name: diskName, size: `${sizeMib}MiB`, pool };
  return { kind: "host", name: hostId, action: "provide", values };
}

function limitTexts(limits: IoLimits | null): Readonly<Record<string, string>> {
  const { readIops = 0, writeIops = 0, readBytesPerSecond = 0, writeBytesPerSecond = 0 } = limits ?? {};
  const texts = {
    read_iops: String(readIops),
    write_iops: String(writeIops),
    read_bytes_per_second: exactSize(readBytesPerSecond),
    write_bytes_per_second: exactSize(writeBytesPerSecond),
  };
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => Number.parseInt(text, 10) > 0));
}

function exactSize(sizeBytes: number): string {
  return sizeBytes % MIB_BYTES === 0 ? `${sizeBytes / MIB_BYTES}MiB` : `${sizeBytes}B`;
}
