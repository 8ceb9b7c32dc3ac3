import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";
import type { AgentJobContext } from "../agents/context.js";
import type { Instance } from "../store/instance.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import { boshInstance } from "./bosh-instance.js";
import { instancesOf, requireDeployment } from "./recorded-deployments.js";
import { vmCreatedAt } from "./wire.js";

/**
 * Timeout of an agent's state request. A busy agent answers within this time, and an absent agent delays the list by no
 * more.
 */
const STATE_TIMEOUT_MS = 5_000;

/** Requests the state of a deployment's agents and writes a result line in BOSH's format for each instance. */
export const retrieveVmStats: Planner<"retrieve_vm_stats", AgentJobContext> = (
  context,
  { deployment, withoutVm },
  tables,
) => {
  requireDeployment(tables, deployment);
  const instances = instancesOf(tables, deployment).filter(({ vmCid }) => withoutVm || vmCid !== "");
  return {
    locks: [],
    cpis: [],
    run: async (run) => {
      const slots = new Slots(context.limits.agents.maxConcurrentChecks);
      const lines = await Promise.all(
        instances.map(async (instance) => {
          const state = await stateOf(context, run, instance, slots);
          const disks = await context.tablet.read((now) => [
            ...now.persistentDisks.by("byInstance", instance.instanceId),
          ]);
          return JSON.stringify(boshInstance(instance, disks, state, vmCreatedAt(instance)));
        }),
      );
      // The lines are written only at the end, because a director that resumes the task starts the list anew.
      await run.putOut("result", lines);
      return "";
    },
  };
};

/** Returns the agent's state; undefined when the agent does not answer or returns an error. */
async function stateOf(
  context: AgentJobContext,
  run: TaskRun,
  { agentId }: Instance,
  slots: Slots,
): Promise<JsonObject | undefined> {
  if (agentId === "") return undefined;
  const options = {
    signal: run.stopped,
    timeoutMs: STATE_TIMEOUT_MS,
    requestTimeoutMs: STATE_TIMEOUT_MS,
    unknownMethodIs: "ignored",
  } as const;
  try {
    const state = await slots.run(() => context.agents.call(agentId, "get_state", ["full"], options), run.stopped);
    return isJsonObject(state) ? state : {};
  } catch {
    run.checkpoint();
    return undefined;
  }
}
