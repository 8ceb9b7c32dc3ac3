import { compareLocks, type LockName } from "../locks/locks.js";
import type { Planner } from "../tasks/job.js";
import type { DiskJobContext } from "./context.js";
import { settleOwedRemovals } from "./forget.js";

/** Has a reachable agent remove the disks of its pending detach notifications. */
export const settleRemovalsOfAgent: Planner<"settle_owed_removals", DiskJobContext> = (
  context,
  { agentId },
  tables,
) => {
  const instanceIds = new Set([...tables.owedRemovals.by("byAgent", agentId)].map(({ instanceId }) => instanceId));
  return {
    locks: [...instanceIds].map((resource): LockName => ({ type: "instance", resource })).sort(compareLocks),
    cpis: [],
    run: async (run) => {
      const { detachTimeoutMs: timeoutMs } = context.limits.agents;
      const names = await settleOwedRemovals(context, run, agentId, { timeoutMs });
      if (names.length === 0) return `agent \`${agentId}\` has no pending detach notifications`;
      return `agent \`${agentId}\` has forgotten ${names.map((name) => `disk \`${name}\``).join(", ")}`;
    },
  };
};
