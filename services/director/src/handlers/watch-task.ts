import type { WatchTaskRequest, WatchTaskResponse } from "@diskmesh/api/director";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { hasEnded } from "../model/task.js";
import { encodeTask, encodeTaskEvent } from "../wire.js";
import { parseTaskId } from "./parse.js";

/** Read at once per watcher: however slow it is, it holds no more than that. */
const EVENTS_PER_READ = 100;

export function watchTask(
  context: TaskContext,
  request: WatchTaskRequest,
  call: CallContext,
): AsyncIterable<WatchTaskResponse> {
  return updatesOf(context, request, call);
}

async function* updatesOf(
  context: TaskContext,
  request: { readonly taskId: number; readonly fromIndex: number },
  call: CallContext,
): AsyncGenerator<WatchTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  let index = request.fromIndex;
  if (index < 0)
    throw new InvalidArgumentError(`from_index is ${index}: it must not be negative`, {
      about: { field: "from_index" },
    });
  using watch = context.changes.watch(taskId);
  for (;;) {
    // Before the events: a task that has ended has all of them.
    const task = await context.tasks.get(taskId);
    const events = await context.taskLog.read(task, index, EVENTS_PER_READ);
    for (const event of events) yield { update: { $case: "event", value: encodeTaskEvent(event, index++) } };
    if (events.length === EVENTS_PER_READ) continue;
    if (hasEnded(task)) {
      yield { update: { $case: "ended", value: encodeTask(task) } };
      return;
    }
    await watch.changed(call.signal);
  }
}
