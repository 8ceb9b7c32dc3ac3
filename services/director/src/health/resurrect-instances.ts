import { DomainError, InvalidStateError, messageOf, TimeoutError } from "@diskmesh/domain";
import { groupOf, manifestOf } from "../configs/recorded-manifest.js";
import { cpisOfStep, recorded } from "../cpi/cpi-target.js";
import { cpisOfDeployment } from "../deployments/deployment-steps.js";
import { runUnit } from "../deployments/run-unit.js";
import { agentAnswered, vmGone, vmLost } from "../instances/instance.js";
import { changeInstance } from "../instances/instance-record.js";
import { requireDeployment } from "../instances/recorded-deployments.js";
import type { LockName } from "../locks/locks.js";
import { maxInFlightOf } from "../specs/update-block.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { Resurrected } from "../store/task.js";
import type { Planner } from "../tasks/job.js";
import { sideBySide } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { HealthJobContext } from "./context.js";
import { decideResurrections, watchedVms } from "./resurrection.js";

const STAGE = "Resurrecting VMs";

/**
 * Recreates missing VMs with silent agents, within the concurrency limit of their group's update block. Each VM is
 * inspected again first. A new VM is created only when the former VM is certainly gone; an unknown result fails the
 * instance.
 */
export const resurrectInstances: Planner<"resurrect_instances", HealthJobContext> = (
  context,
  { deployment, vms },
  tables,
) => {
  requireDeployment(tables, deployment);
  const manifest = tables.deployments.get(deployment)?.manifest ?? "";
  const locks: LockName[] = [{ type: "deployment", resource: deployment }];
  return {
    locks,
    ...cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, deployment)),
    run: async (run) => {
      using _held = await context.configs.manifests.hold(manifest, run.stopped);
      const outcomes: string[] = [];
      const failures: string[] = [];
      const groups = await context.tablet.read((now) => byGroup(now, vms));
      await Promise.all(
        [...groups].map(async ([group, members]) => {
          const { update, instances } = await context.tablet.read((now) =>
            groupOf(manifestOf(context, now, deployment), { deployment, group }),
          );
          await sideBySide(members, maxInFlightOf(update, instances), async (vm) => {
            try {
              outcomes.push(await resurrect(context, run, vm));
            } catch (error) {
              run.checkpoint();
              if (!(error instanceof DomainError)) throw error;
              failures.push(`${group}/${vm.instanceId}: ${messageOf(error)}`);
            }
          });
        }),
      );
      if (failures.length > 0) throw new InvalidStateError([...failures, ...outcomes].join("\n"));
      return outcomes.join("\n");
    },
  };
};

function byGroup(tables: DirectorTables, vms: readonly Resurrected[]): Map<string, Resurrected[]> {
  const groups = new Map<string, Resurrected[]>();
  for (const vm of vms) {
    const group = tables.instances.get(vm.instanceId)?.group;
    if (group !== undefined) groups.set(group, [...(groups.get(group) ?? []), vm]);
  }
  return groups;
}

async function resurrect(context: HealthJobContext, run: TaskRun, vm: Resurrected): Promise<string> {
  const { instanceId } = vm;
  const begun = await run.inLane(async (lane, locks) => {
    const own = { type: "instance", resource: instanceId } as const;
    await locks.settle([own], lane.stopped);
    const found = await context.tablet.read((tables) => stillSilent(context, tables, run.taskId, vm));
    if (typeof found === "string" || found.isBegun) return typeof found === "string" ? found : found.instance;
    return findOut(context, lane, found);
  });
  if (typeof begun === "string") return begun;
  const name = formatInstance(begun);
  await run.stage(STAGE, name, async () => {
    const { deployment } = begun;
    const { update } = await context.tablet.read((tables) => groupOf(manifestOf(context, tables, deployment), begun));
    const aim = { deployment, taskId: run.taskId, wanted: "started", follows: false, fixesLost: true } as const;
    const work = { aim, skipDrain: false, watchTime: update.updateWatchTime };
    await context.vmSlots(begun.cpi).run(() => runUnit(context, run, [instanceId], work), run.stopped);
  });
  return `${name} has another VM`;
}

interface Silent {
  readonly instance: Instance;
  /** True when the silence exceeds the limit after which a VM counts as dead. */
  readonly isDead: boolean;
  /** True when an attempt of this task before a crash already marked the VM as lost. The task continues. */
  readonly isBegun: boolean;
}

/** Returns the VM if it is still silent, judged under its lock; otherwise the reason for doing nothing. */
function stillSilent(
  context: HealthJobContext,
  tables: DirectorTables,
  taskId: number,
  { instanceId, vmCid }: Resurrected,
): Silent | string {
  const instance = tables.instances.get(instanceId);
  if (instance === undefined) return `instance ${instanceId} is gone`;
  const name = formatInstance(instance);
  if (instance.changedByTaskId === taskId && !instance.ignore) return { instance, isDead: true, isBegun: true };
  if (instance.vmCid !== vmCid) return `${name} was changed meanwhile`;
  const { resurrection } = context.limits;
  const wishes = context.configs.resurrection.wishes(tables);
  const watched = watchedVms(tables, (agentId) => context.agents.silentMsOf(agentId), wishes, context.clock.nowMs());
  const verdict = decideResurrections(watched, resurrection).find((each) => each.instance.instanceId === instanceId);
  if (verdict === undefined) return `${name} was changed meanwhile, or is no longer silent for long enough`;
  if (verdict.do === "hold") throw new InvalidStateError(`${name} is not recreated: ${verdict.because}`);
  return { instance, isDead: verdict.isDead, isBegun: false };
}

/** Marks the VM as lost once it is certainly gone; otherwise returns the reason for doing nothing. */
async function findOut(
  context: HealthJobContext,
  run: TaskRun,
  { instance, isDead }: Silent,
): Promise<Instance | string> {
  const name = formatInstance(instance);
  const { instanceId, vmCid } = instance;
  const { lostAfterMs: timeoutMs } = context.limits.agents;
  const options = { timeoutMs, repeatUnknown: false };
  const found = await context.cpi.callIfKnown("hasVm", recorded(instance), { vmCid }, run, options);
  const isGone = found?.exists === false;
  // The agent of a missing VM is not asked, because it cannot answer and the wait would dominate the time of a
  // resurrection.
  if (!isGone && (await answers(context, run, instance))) {
    await changeInstance(context, instanceId, (now) => (now.vmState === "lost" ? agentAnswered(now) : now));
    return `${name} answers again`;
  }
  if (!isGone && !isDead) return `${name} is silent, and its CPI does not say that vm ${vmCid} is gone`;
  run.event({ stage: STAGE, task: name, state: "started", message: isGone ? "its vm is gone" : "its agent is silent" });
  const lose = isGone ? vmGone : vmLost;
  return changeInstance(context, instanceId, (now) => ({ ...lose(now), changedByTaskId: run.taskId }));
}

async function answers(context: HealthJobContext, run: TaskRun, { agentId }: Instance): Promise<boolean> {
  try {
    await context.agents.awaitAnswer(run, agentId, context.limits.agents.lostAfterMs);
    return true;
  } catch (error) {
    if (error instanceof TimeoutError) return false;
    throw error;
  }
}
