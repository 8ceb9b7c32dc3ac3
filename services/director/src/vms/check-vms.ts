import { messageOf, TimeoutError } from "@diskmesh/domain";
import { isShutOut } from "../agents/agent-key.js";
import { CpiCallError } from "../cpi/cpi-error.js";
import { recorded } from "../cpi/cpi-target.js";
import { agentAnswered, vmGone, vmLost } from "../instances/instance.js";
import { instancesOf } from "../instances/recorded-deployments.js";
import { formatInstance, type Instance } from "../store/instance.js";
import { sideBySide } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";

const STAGE = "Checking vms";

/** "shut_out": the agent has no valid certificate. "there": the VM exists and its agent answers. */
type Finding = "gone" | "silent" | "shut_out" | "there";

/**
 * Finds missing VMs and silent agents, and records their VMs as gone or lost. Marks the deployment as checked by the
 * task, so that the task checks it once.
 */
export async function checkVms(
  context: VmJobContext,
  run: TaskRun,
  deployment: string,
  {
    meant = (all) => all,
    shutOutIsLost = false,
  }: {
    readonly meant?: (all: readonly Instance[]) => readonly Instance[];
    /** Treats VMs whose agents have no valid certificate as lost, because an operator asked to recreate them. */
    readonly shutOutIsLost?: boolean;
  } = {},
): Promise<undefined> {
  const instances = await context.tablet.read((tables) =>
    meant(instancesOf(tables, deployment)).filter(
      ({ leaving, ignore, vmState }) => !leaving && !ignore && (vmState === "running" || vmState === "lost"),
    ),
  );
  const found = new Map<string, Finding>();
  const failingCpis = new Set<string>();
  await sideBySide(instances, context.limits.agents.maxConcurrentChecks, async (instance) => {
    found.set(instance.instanceId, await findVm(context, run, instance, failingCpis));
  });
  await context.tablet.transact((tx) => {
    for (const { instanceId, vmCid } of instances) {
      const current = tx.instances.get(instanceId);
      if (current?.vmCid !== vmCid || (current.vmState !== "running" && current.vmState !== "lost")) continue;
      const finding = found.get(instanceId);
      if (finding === "gone") tx.instances.put(vmGone(current));
      else if (finding === "silent" || (finding === "shut_out" && shutOutIsLost)) tx.instances.put(vmLost(current));
      else if (finding === "there" && current.vmState === "lost") tx.instances.put(agentAnswered(current));
    }
    const current = tx.deployments.get(deployment);
    if (current !== undefined) tx.deployments.put({ ...current, checkedByTaskId: run.taskId });
  });
  return undefined;
}

async function findVm(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  failingCpis: Set<string>,
): Promise<Finding> {
  const event = { stage: STAGE, task: formatInstance(instance), state: "failed" } as const;
  if (!(await hasVm(context, run, instance, failingCpis))) {
    run.event({ ...event, message: `its CPI says that vm \`${instance.vmCid}\` is gone` });
    return "gone";
  }
  try {
    await context.agents.awaitAnswer(run, instance.agentId, context.limits.agents.lostAfterMs);
    return "there";
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    if (isShutOut(instance.agentKeys, context.clock.nowMs())) {
      const message = `${messageOf(error)}; the agent's certificate has ended, so it is not known whether its VM runs: recreate the VM`;
      run.event({ ...event, message });
      return "shut_out";
    }
    run.event({ ...event, message: `${messageOf(error)}; vm \`${instance.vmCid}\` counts as lost` });
    return "silent";
  }
}

/**
 * Returns false only when the CPI states that the VM is gone. A failing CPI is not called again, so that it does not
 * delay other VMs.
 */
async function hasVm(
  context: VmJobContext,
  run: TaskRun,
  instance: Instance,
  failingCpis: Set<string>,
): Promise<boolean> {
  const { vmCid, cpi } = instance;
  if (failingCpis.has(cpi)) return true;
  try {
    const options = { timeoutMs: context.limits.agents.lostAfterMs, repeatUnknown: false };
    return (await context.cpi.callIfKnown("hasVm", recorded(instance), { vmCid }, run, options))?.exists ?? true;
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof CpiCallError)) throw error;
    failingCpis.add(cpi);
    run.event({ stage: STAGE, task: formatInstance(instance), state: "failed", message: messageOf(error) });
    return true;
  }
}
