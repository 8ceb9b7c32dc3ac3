import { DomainError, UnavailableError } from "@diskmesh/domain";
import { attachedTo } from "../../instances/recorded-deployments.js";
import type { Planner } from "../../tasks/job.js";
import { sideBySide } from "../../tasks/run-all.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { notifyAgentOfDisks } from "./provide.js";

/**
 * Sends possibly restarted agents the dynamic disks of their VMs, because a restart loses the disk links. Agents that
 * still know their disks change nothing. Each agent is handled in a lane, a concurrent part of the task that holds the
 * lock of the agent's instance.
 */
export const notifyAgentsAgain: Planner<"tell_agents", DiskJobContext> = (context, { agentIds }) => ({
  locks: [],
  cpis: [],
  run: async (run) => {
    const failed: string[] = [];
    await sideBySide(agentIds, context.limits.agents.maxConcurrentChecks, async (agentId) => {
      try {
        await notifyOne(context, run, agentId);
      } catch (error) {
        run.checkpoint();
        if (!(error instanceof DomainError)) throw error;
        failed.push(`${agentId}: ${error.message}`);
      }
    });
    if (failed.length === 0) return `${agentIds.length} agents know their disks`;
    throw new UnavailableError(
      `${failed.length} of ${agentIds.length} agents were not notified of their disks; ${failed.join("; ")}`,
    );
  },
});

function notifyOne(context: DiskJobContext, run: TaskRun, agentId: string): Promise<void> {
  return run.inLane(async (lane, locks) => {
    for (;;) {
      lane.checkpoint();
      const { instance, disks } = await context.tablet.read((tables) => attachedTo(tables, agentId));
      if (instance === undefined || disks.length === 0) return;
      const own = { type: "instance", resource: instance.instanceId } as const;
      if ((await locks.settle([own], lane.stopped)) === "acquired") continue;
      // Attach and detach need the lock of the instance, so the disks cannot change.
      return notifyAgentOfDisks(context, lane, agentId);
    }
  });
}
