import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";
import type { AgentJobContext } from "../agents/context.js";
import type { Instance } from "../store/instance.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import { boshInstance } from "./bosh-instance.js";
import { instancesOf, requireDeployment } from "./recorded-deployments.js";

/** An agent that is busy answers within that; of one that is away it is all that a list waits. */
const STATE_TIMEOUT_MS = 5_000;

/** Asks the agents of a deployment how they are, and puts out a line for each instance as BOSH's clients read it. */
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
          return JSON.stringify(boshInstance(instance, disks, state));
        }),
      );
      // Only now: if this director dies before, another one begins anew.
      await run.putOut("result", lines);
      return "";
    },
  };
};

/** Resolves with the agent's state; undefined when it does not answer, or with an error. */
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
