import { DomainError, messageOf } from "@diskmesh/domain";
import { manifestOf } from "../configs/recorded-manifest.js";
import { instancesOf } from "../instances/recorded-deployments.js";
import type { GroupSpec } from "../specs/instance-group.js";
import { maxInFlightOf } from "../specs/update-block.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { SkipDrain } from "../store/task.js";
import { type Failure, finish, runAll } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import { cpiFor } from "../vms/vm-spec.js";
import type { DeploymentJobContext } from "./context.js";
import { type DeployNeeds, decideDeploy, isBroken, isMissing } from "./deployment.js";
import { runUnit, type UnitWork } from "./run-unit.js";
import { type Aim, needsOf } from "./update-needs.js";
import { partsOf, unitsOf, type Wave, wavesOf } from "./waves.js";

export interface InstanceUpdate {
  readonly aim: Aim;
  readonly skipDrain: SkipDrain;
  /** Selects the affected instances of the deployment. */
  readonly meant: (all: readonly Instance[]) => readonly Instance[];
  /** Overrides of the manifest's update block; empty for none. */
  readonly canaries: string;
  readonly maxInFlight: string;
}

/** Instances that are updated one after the other, concurrently with other units. */
interface Unit {
  readonly instanceIds: readonly string[];
  readonly name: string;
  readonly az: string;
  readonly cpi: string;
  readonly isBroken: boolean;
  /** The reason of the first step; empty for none. */
  readonly because: string;
}

/**
 * Updates instances in order: leaving instances, then all missing VMs at once because they serve nothing yet, then
 * group by group as in the update block. Faulty instances come before healthy instances. After a failure, running
 * updates finish and no further healthy instance is started. All failures are reported at the end.
 */
export async function updateInstances(
  context: DeploymentJobContext,
  run: TaskRun,
  update: InstanceUpdate,
): Promise<void> {
  await deleteLeaving(context, run, update);
  await makeMissing(context, run, update);
  const groups = await context.tablet.read((tables) => groupsOf(context, tables, update));
  for (const part of partsOf(groups)) {
    const failures = await Promise.all(part.map((group) => updateGroup(context, run, update, group)));
    finish(run, failures.flat());
  }
}

async function deleteLeaving(context: DeploymentJobContext, run: TaskRun, update: InstanceUpdate): Promise<void> {
  const byGroup = await context.tablet.read((tables) => {
    const groups = groupsOf(context, tables, update);
    const leaving = meantOf(tables, update).filter((instance) => instance.leaving);
    const names = [...new Set(leaving.map(({ group }) => group))];
    return names.map((name) => {
      const units = leaving.filter(({ group }) => group === name).map((instance) => leavingUnit(instance));
      const group = groups.find((each) => each.name === name);
      return { units, atOnce: group === undefined ? units.length : maxInFlightOf(group.update, units.length) };
    });
  });
  const work: UnitWork = { ...workOf(update), until: (instances) => instances.every(({ leaving }) => !leaving) };
  const failures = await Promise.all(
    byGroup.map(({ units, atOnce }) =>
      runAll(run, units, { atOnce, goesOn: false }, (unit) => inSlot(context, run, unit, work)),
    ),
  );
  finish(run, failures.flat());
}

function leavingUnit(instance: Instance): Unit {
  const { instanceId, az, cpi } = instance;
  const name = formatInstance(instance);
  return { instanceIds: [instanceId], name, az, cpi, isBroken: false, because: "" };
}

/** Creates all missing VMs. A failure does not stop the creation of other VMs. */
async function makeMissing(context: DeploymentJobContext, run: TaskRun, update: InstanceUpdate): Promise<void> {
  const units = await context.tablet.read((tables) =>
    unitsIn(context, tables, update, (instance) => !instance.leaving && isMissing(instance)),
  );
  const work: UnitWork = { ...workOf(update), until: (instances) => !instances.some(isMissing) };
  const how = { atOnce: units.length, goesOn: true };
  finish(run, await runAll(run, units, how, (unit) => inSlot(context, run, unit, work)));
}

async function updateGroup(
  context: DeploymentJobContext,
  run: TaskRun,
  update: InstanceUpdate,
  group: GroupSpec,
): Promise<Failure[]> {
  const units = await context.tablet.read((tables) => unitsIn(context, tables, update, ofGroup(group.name)));
  const ordered = [...units.filter((unit) => unit.isBroken), ...units.filter((unit) => !unit.isBroken)];
  for (const wave of wavesOf(group.update, ordered)) {
    const failures = await runAll(run, wave.members, { atOnce: wave.atOnce, goesOn: false }, (unit) =>
      updateUnit(context, run, update, group, { unit, wave, total: ordered.length }),
    );
    if (failures.length > 0) return failures;
  }
  return [];
}

function ofGroup(name: string): (instance: Instance) => boolean {
  return ({ group, leaving }) => group === name && !leaving;
}

function updateUnit(
  context: DeploymentJobContext,
  run: TaskRun,
  update: InstanceUpdate,
  { name: group, update: block }: GroupSpec,
  { unit, wave: { isCanary }, total }: { readonly unit: Unit; readonly wave: Wave<Unit>; readonly total: number },
): Promise<void> {
  const watchTime = isCanary ? block.canaryWatchTime : block.updateWatchTime;
  const name = isCanary ? `${unit.name} (canary)` : unit.name;
  const work = async (): Promise<void> => {
    const deed = { action: actionOf(update), objectType: "instance", objectName: unit.name };
    const begun = await context.events.begin(deed, { taskId: run.taskId, instance: unit.name });
    try {
      await inSlot(context, run, unit, { ...workOf(update), watchTime });
      begun.end({});
    } catch (error) {
      begun.end({ error: messageOf(error) });
      throw error;
    }
  };
  return run.stage("Updating instance", name, work, unit.because, { tags: [group], total });
}

/** Returns the action's name in events. */
function actionOf({ aim: { wanted, follows } }: InstanceUpdate): string {
  if (wanted === "restart" || wanted === "recreate") return wanted;
  if (follows) return "update";
  return wanted === "started" ? "start" : "stop";
}

function workOf({ aim, skipDrain }: InstanceUpdate): UnitWork {
  return { aim, skipDrain };
}

function inSlot(
  context: DeploymentJobContext,
  run: TaskRun,
  { cpi, instanceIds }: Unit,
  work: UnitWork,
): Promise<void> {
  return context.vmSlots(cpi).run(() => runUnit(context, run, instanceIds, work), run.stopped);
}

function meantOf(tables: DirectorTables, { aim, meant }: InstanceUpdate): readonly Instance[] {
  return meant(instancesOf(tables, aim.deployment));
}

function groupsOf(context: DeploymentJobContext, tables: DirectorTables, update: InstanceUpdate): GroupSpec[] {
  const { canaries, maxInFlight } = update;
  return manifestOf(context, tables, update.aim.deployment).groups.map((group) => ({
    ...group,
    update: {
      ...group.update,
      ...(canaries !== "" && { canaries }),
      ...(maxInFlight !== "" && { maxInFlight }),
    },
  }));
}

/** Returns the selected instances that need work, in units with the instances on which they depend. */
function unitsIn(
  context: DeploymentJobContext,
  tables: DirectorTables,
  update: InstanceUpdate,
  isIn: (instance: Instance) => boolean,
): Unit[] {
  const needs = needsOf(context, tables, update.aim);
  const all = meantOf(tables, update).filter((instance) => !instance.ignore && isIn(instance));
  const units = unitsOf(all, (instance) => knownHolder(needs, instance));
  return units.flatMap((unit) => unitOf(context, tables, needs, unit) ?? []);
}

/** Returns undefined for an instance that cannot be planned. The instance's own update then reports the error. */
function knownHolder(needs: DeployNeeds, instance: Instance): Instance | undefined {
  try {
    return needs.holderOf(instance);
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
}

/** Returns undefined when the unit needs no work. */
function unitOf(
  context: DeploymentJobContext,
  tables: DirectorTables,
  needs: DeployNeeds,
  unit: readonly Instance[],
): Unit | undefined {
  const [first] = unit as [Instance, ...Instance[]];
  let because = "";
  try {
    const step = decideDeploy(unit, needs);
    if (step.do === "nothing") return undefined;
    if ("because" in step) because = step.because;
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    because = messageOf(error);
  }
  const cpi = first.vmState === "none" ? cpiFor(context, tables, first) : first.cpi;
  return {
    instanceIds: unit.map(({ instanceId }) => instanceId),
    name: formatInstance(first),
    az: first.az,
    cpi,
    isBroken: unit.some(isBroken),
    because,
  };
}
