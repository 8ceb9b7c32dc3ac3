import { TaskOutputType } from "@diskmesh/api/director";
import { DomainError, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { endOf, type Operation, persistently, runTask, type Soak } from "../soak.js";
import { DEVICE_BYTES, WORK_AZ } from "../soak-fleet.js";
import { DISK_TYPE, WORK_DEPLOYMENT } from "./deployment-names.js";

/** Starts a task, sometimes cancels it, watches it to its end, reads its output, and deletes what it created. */
export const tasks: Operation = {
  name: "task: start, cancel, watch, list",
  workers: 1,
  async run(soak, { slot, round, random }) {
    const { clients } = soak.fleet;
    const diskName = `soak-task-${slot}-${round}`;
    const wanted = { diskName, deployment: WORK_DEPLOYMENT, az: WORK_AZ, diskPoolName: DISK_TYPE };
    const create = () => clients.disks.createDisk({ ...wanted, sizeBytes: DEVICE_BYTES });
    const { task } = await persistently(`CreateDisk ${diskName}`, create);
    if (task === undefined) throw new Error("the answer has no task");
    const { taskId } = task;
    if (random.next() < 0.5) await cancel(soak, taskId);
    await watch(soak, taskId);
    const ended = await endOf(soak, task);
    const output = { taskId, type: TaskOutputType.EVENT };
    await persistently(`GetTaskOutput ${taskId}`, () => clients.tasks.getTaskOutput(output));
    const list = { pageSize: 20 };
    const { tasks: newest } = await persistently("ListTasks", () => clients.tasks.listTasks(list));
    if ((newest[0]?.taskId ?? 0) < ended.taskId)
      soak.violations.add(`acknowledged is there: task ${ended.taskId} is newer than all that are listed`);
    await runTask(soak, `DeleteDisk ${diskName}`, () => clients.disks.deleteDisk({ diskName, wait: true }));
  },
};

async function cancel(soak: Soak, taskId: number): Promise<void> {
  try {
    await persistently(`CancelTask ${taskId}`, () => soak.fleet.clients.tasks.cancelTask({ taskId }));
  } catch (error) {
    // The task ended before it could be cancelled.
    if (!(error instanceof Error && error.cause instanceof InvalidStateError)) throw error;
  }
}

/** Watches a task. Ends early when the serving director is killed. */
async function watch(soak: Soak, taskId: number): Promise<void> {
  let last = -1;
  try {
    const request = { taskId };
    for await (const { update } of soak.fleet.clients.tasks.watchTask(request, { deadlineMs: 10_000 })) {
      if (update?.$case !== "event") continue;
      const event = update.value;
      if (event.index <= last) soak.violations.add(`events of task ${taskId} in order: ${event.index} after ${last}`);
      last = event.index;
    }
  } catch (error) {
    if (error instanceof NotFoundError) soak.violations.add(`acknowledged is there: task ${taskId} is unknown`);
    else if (!(error instanceof DomainError)) throw error;
    soak.measures.failed("tasks.WatchTask", error.name, error.message, "to be repeated");
  }
}
