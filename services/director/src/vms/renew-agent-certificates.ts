import { isDue } from "../agents/agent-key.js";
import type { LockName } from "../locks/locks.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { Planner } from "../tasks/job.js";
import { finish, runAll } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import { renewCertificate } from "./agent-certificate.js";
import type { VmJobContext } from "./context.js";

/**
 * Renews agents' certificates, each under its instance's lock. Agents whose certificate was renewed in the meantime are
 * skipped.
 */
export const renewAgentCertificates: Planner<"renew_agent_certificates", VmJobContext> = (
  context,
  { instanceIds },
) => ({
  locks: [],
  cpis: [],
  run: async (run) => {
    let renewed = 0;
    const agents = await context.tablet.read((tables) => instanceIds.map((instanceId) => named(tables, instanceId)));
    const how = { atOnce: context.limits.agents.maxConcurrentChecks, goesOn: true };
    const failures = await runAll(run, agents, how, async ({ instanceId }) => {
      if (await renew(context, run, instanceId)) renewed++;
    });
    finish(run, failures, "agents");
    return `renewed ${renewed} certificate${renewed === 1 ? "" : "s"}`;
  },
});

function named(tables: DirectorTables, instanceId: string) {
  const instance = tables.instances.get(instanceId);
  return { instanceId, name: instance === undefined ? instanceId : formatInstance(instance) };
}

function renew(context: VmJobContext, run: TaskRun, instanceId: string): Promise<boolean> {
  return run.inLane(async (lane, locks) => {
    const wanted: LockName[] = [{ type: "instance", resource: instanceId }];
    lane.checkpoint();
    await locks.settle(wanted, lane.stopped);
    const instance = await context.tablet.read((tables) => tables.instances.get(instanceId));
    if (!needsCertificate(context, instance)) return false;
    await renewCertificate(context, lane, instance);
    return true;
  });
}

function needsCertificate({ making, clock }: VmJobContext, instance: Instance | undefined): instance is Instance {
  const { agentCertificates } = making;
  if (agentCertificates === undefined || instance?.vmState !== "running") return false;
  return isDue(instance.agentKeys ?? [], agentCertificates.trust, clock.nowMs());
}
