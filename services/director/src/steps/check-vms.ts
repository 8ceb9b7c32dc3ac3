import { messageOf, TimeoutError } from "@diskmesh/domain";
import { CpiCallError } from "../cpi/cpi-error.js";
import { agentAnswered, formatInstance, type Instance, vmLost } from "../model/instance.js";
import { instancesOf } from "../model/recorded-deployments.js";
import type { TaskRun } from "../workers/task-run.js";
import { awaitAgent } from "./agent-steps.js";
import { recorded } from "./cpi-target.js";
import type { JobContext } from "./job-context.js";
import { sideBySide } from "./side-by-side.js";

const STAGE = "Checking vms";

/** Once for each deploy: finds out which VMs are gone and which agents do not answer. */
export async function checkVms(context: JobContext, run: TaskRun, deployment: string): Promise<undefined> {
  const instances = await context.tablet.read((tables) =>
    instancesOf(tables, deployment).filter(
      ({ leaving, vmState }) => !leaving && (vmState === "running" || vmState === "lost"),
    ),
  );
  const found = new Map<string, boolean>();
  const failingCpis = new Set<string>();
  await sideBySide(instances, context.config.agents.checksAtOnce, async (instance) => {
    found.set(instance.instanceId, await isThere(context, run, instance, failingCpis));
  });
  await context.tablet.transact((tx) => {
    for (const { instanceId, vmCid } of instances) {
      const current = tx.instances.get(instanceId);
      if (current?.vmCid !== vmCid || (current.vmState !== "running" && current.vmState !== "lost")) continue;
      if (found.get(instanceId) === false) tx.instances.put(vmLost(current));
      else if (current.vmState === "lost") tx.instances.put(agentAnswered(current));
    }
    const current = tx.deployments.get(deployment);
    if (current !== undefined) tx.deployments.put({ ...current, checkedByTaskId: run.taskId });
  });
  return undefined;
}

async function isThere(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  failingCpis: Set<string>,
): Promise<boolean> {
  const task = formatInstance(instance);
  if (!(await hasVm(context, run, instance, failingCpis))) {
    const message = `its CPI says that vm \`${instance.vmCid}\` is gone: another is made`;
    run.event({ stage: STAGE, task, state: "failed", message });
    return false;
  }
  try {
    await awaitAgent(context, run, instance.agentId, context.config.agents.lostAfterMs);
    return true;
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    const message = `${messageOf(error)}; vm \`${instance.vmCid}\` is made anew`;
    run.event({ stage: STAGE, task, state: "failed", message });
    return false;
  }
}

/** Only a clear no counts. A CPI that fails is asked no more: it shall not hold up what others make. */
async function hasVm(
  context: JobContext,
  run: TaskRun,
  instance: Instance,
  failingCpis: Set<string>,
): Promise<boolean> {
  const { vmCid, cpi } = instance;
  if (failingCpis.has(cpi)) return true;
  try {
    const options = { timeoutMs: context.config.agents.lostAfterMs, repeatUnknown: false };
    return (await context.cpi.call("hasVm", recorded(instance), { vmCid }, run, options)).exists;
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof CpiCallError)) throw error;
    failingCpis.add(cpi);
    if (!error.isNotImplemented)
      run.event({ stage: STAGE, task: formatInstance(instance), state: "failed", message: messageOf(error) });
    return true;
  }
}
