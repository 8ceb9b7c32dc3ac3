import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, freePort } from "@diskmesh/testkit";
import { expect } from "chai";
import { deleteDisk, detachDisk } from "../mesh/steps.js";
import type { Situation } from "./situation.js";
import type { StuckFleet } from "./stuck-fleet.js";

/** Begins a task that provides a disk. Returns its id, and a function that deletes the disk once the task is done. */
async function waitingTask({ mesh, instanceIds }: StuckFleet) {
  const { task } = await mesh.clients.disks.provideDynamicDisk({
    ...{ diskName: "waits", instanceId: instanceIds[0] ?? "", diskPoolName: "default" },
    ...{ sizeBytes: MIB_BYTES, wait: false },
  });
  const after = async () => {
    await detachDisk(mesh, "waits");
    await deleteDisk(mesh, "waits");
  };
  return { taskId: String(task?.taskId), after };
}

/** Situations in which a task waits for its dispatcher. */
export const DISPATCHER_SITUATIONS: readonly Situation[] = [
  {
    title: "dispatcher that hangs",
    async make(stuck) {
      const { mesh } = stuck;
      const dispatcher = mesh.process("cpi-dispatcher");
      dispatcher.signal("SIGSTOP");
      await eventually(async () => expect((await mesh.typed("why", "service", "director")).out).to.match(/dispatcher/));
      const { taskId, after } = await waitingTask(stuck);
      return {
        asked: ["task", taskId],
        root: new RegExp(
          `^task ${taskId} .* is processing: the director that was asked lacks its dispatcher: .*${mesh.address("cpi-dispatcher")}`,
        ),
        reasons: ["CPI_RETRIED", "DISPATCHER_AWAY"],
        row: ["source director", /lacks its dispatcher: /],
        cure: /^start the cpi-dispatcher, restart it if it hangs/,
        follow: async () => dispatcher.signal("SIGCONT"),
        after,
      };
    },
  },
  {
    title: "dispatcher with a wrong address of the registry",
    async make(stuck) {
      const dispatcher = stuck.mesh.process("cpi-dispatcher");
      const { config } = dispatcher;
      await dispatcher.restart({ ...config, registry: { address: `127.0.0.1:${await freePort()}` } });
      const { taskId, after } = await waitingTask(stuck);
      const why = /is tried again: .*no process listens there/;
      return {
        asked: ["task", taskId],
        root: new RegExp(`^task ${taskId} .* ${why.source}`),
        reasons: ["CPI_RETRIED"],
        row: [`task ${taskId}`, why],
        cure: /^repair what the message names: the call is then repeated by itself$/,
        follow: () => dispatcher.restart(config),
        after,
      };
    },
  },
];
