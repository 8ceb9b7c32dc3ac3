import { DomainError, messageOf } from "@diskmesh/domain";
import { instancesOf } from "../instances/recorded-deployments.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { DeploymentJobContext } from "./context.js";
import { type DeploymentStep, type DeployNeeds, decideDeploy } from "./deployment.js";
import type { InstanceUpdate } from "./update-instances.js";
import { needsOf } from "./update-needs.js";

const DEEDS: Readonly<Record<Exclude<DeploymentStep["do"], "nothing">, string>> = {
  delete_instance: "would be deleted",
  create_vm: "would get a vm",
  delete_vm: "would lose its vm",
  await_agent: "would be waited for, until its agent answers",
  set_vm_metadata: "would get other metadata",
  persistent_disk: "would have its persistent disk changed",
  start: "would be started",
  stop: "would be stopped",
  restart: "would be restarted",
};

/**
 * Performs a dry run: applies `record` in a transaction that is rolled back, and reports the first action on each
 * instance as events.
 */
export async function rehearse(
  context: DeploymentJobContext,
  run: TaskRun,
  { aim, meant }: Pick<InstanceUpdate, "aim" | "meant">,
  record: (tx: DirectorTransaction) => void,
): Promise<string> {
  const deeds = await takenBack(context, (tx) => {
    const present = new Set(instancesOf(tx, aim.deployment).map(({ instanceId }) => instanceId));
    record(tx);
    const needs = needsOf(context, tx, aim);
    const instances = meant(instancesOf(tx, aim.deployment)).filter(({ ignore }) => !ignore);
    return instances.flatMap((instance) => deedOf(instance, needs, present.has(instance.instanceId)));
  });
  for (const deed of deeds) run.note("Dry run", deed);
  return `/deployments/${aim.deployment}`;
}

function deedOf(instance: Instance, needs: DeployNeeds, isPresent: boolean): string[] {
  // The id of a new instance is chosen only when the instance is created.
  const name = isPresent ? formatInstance(instance) : `${instance.group}/${instance.index}`;
  try {
    const step = decideDeploy([instance], needs);
    if (step.do === "nothing") return [];
    const why = "because" in step ? `: ${step.because}` : "";
    const whose = step.instance.instanceId === instance.instanceId ? name : formatInstance(step.instance);
    return [`${whose} ${DEEDS[step.do]}${why}`];
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return [`${name} would fail: ${messageOf(error)}`];
  }
}

/** Runs `work` in a transaction and returns the result. The transaction throws, and so is rolled back. */
async function takenBack<Result>(
  { tablet }: Pick<DeploymentJobContext, "tablet">,
  work: (tx: DirectorTransaction) => Result,
): Promise<Result> {
  class Rehearsed extends Error {
    constructor(readonly result: Result) {
      super("taken back");
    }
  }
  try {
    return await tablet.transact((tx) => {
      throw new Rehearsed(work(tx));
    });
  } catch (error) {
    if (error instanceof Rehearsed) return error.result;
    throw error;
  }
}
