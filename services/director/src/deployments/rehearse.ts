import { DomainError, messageOf } from "@diskmesh/domain";
import { type CpiFacts, cpiFacts } from "../cpi/make-once.js";
import { instancesOf } from "../instances/recorded-deployments.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTransaction } from "../store/schema.js";
import { type Failure, finish } from "../tasks/run-all.js";
import type { TaskRun } from "../tasks/task-run.js";
import { cpiFor, intentOf } from "../vms/vm-spec.js";
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

/** The first action on an instance, or the error that would prevent it. */
interface Deed {
  readonly name: string;
  readonly text: string;
  readonly error?: unknown;
}

interface Maker {
  readonly cpi: string;
  readonly az: string;
}

interface Rehearsal {
  readonly context: DeploymentJobContext;
  readonly tx: DirectorTransaction;
  readonly needs: DeployNeeds;
}

/** The facts about the CPIs of the VMs to be made, or the error with which a CPI refused. */
type FactsByCpi = ReadonlyMap<string, CpiFacts | DomainError>;

/**
 * Performs a dry run: applies `record` in a transaction that is rolled back, and reports the first action on each
 * instance as events. Throws the errors of instances that the deploy would refuse. CPIs are called for their info only.
 */
export async function rehearse(
  context: DeploymentJobContext,
  run: TaskRun,
  { aim, meant }: Pick<InstanceUpdate, "aim" | "meant">,
  record: (tx: DirectorTransaction) => void,
): Promise<string> {
  const decided = <Result>(decide: (rehearsal: Rehearsal, instance: Instance, isPresent: boolean) => Result) =>
    takenBack(context, (tx) => {
      const present = new Set(instancesOf(tx, aim.deployment).map(({ instanceId }) => instanceId));
      record(tx);
      const rehearsal = { context, tx, needs: needsOf(context, tx, aim) };
      const instances = meant(instancesOf(tx, aim.deployment)).filter(({ ignore }) => !ignore);
      return instances.map((instance) => decide(rehearsal, instance, present.has(instance.instanceId)));
    });
  const facts = await factsOf(context, run, await decided(makerOf));
  const deeds = await decided((rehearsal, instance, isPresent) => deedOf(rehearsal, instance, isPresent, facts));
  for (const { name, text } of deeds.flat()) run.note("Dry run", `${name} ${text}`);
  finish(run, deeds.flat().filter(({ error }) => error !== undefined) as readonly Failure[]);
  return `/deployments/${aim.deployment}`;
}

/** Returns the CPI and AZ of a VM that would be made; undefined for none. */
function makerOf({ context, tx, needs }: Rehearsal, instance: Instance): Maker | undefined {
  const maker = tried(() => {
    if (!makesVm(decideDeploy([instance], needs), instance)) return undefined;
    return { cpi: cpiFor(context, tx, instance), az: instance.az };
  });
  return maker instanceof DomainError ? undefined : maker;
}

/** A VM that is being created has its recorded arguments. */
function makesVm(step: DeploymentStep, { vmState, state, leaving }: Instance): boolean {
  if (leaving || state === "detached" || vmState === "creating") return false;
  return step.do === "create_vm" || step.do === "delete_vm";
}

async function factsOf(
  context: DeploymentJobContext,
  run: TaskRun,
  makers: readonly (Maker | undefined)[],
): Promise<FactsByCpi> {
  const facts = new Map<string, CpiFacts | DomainError>();
  for (const maker of makers) {
    if (maker === undefined || facts.has(maker.cpi)) continue;
    const { cpi, az } = maker;
    const asked = cpiFacts(context, run, { cpi, az, azCpi: cpi });
    facts.set(
      cpi,
      await asked.catch((error: unknown) => {
        run.checkpoint();
        if (error instanceof DomainError) return error;
        throw error;
      }),
    );
  }
  return facts;
}

function deedOf({ context, tx, needs }: Rehearsal, instance: Instance, isPresent: boolean, facts: FactsByCpi): Deed[] {
  // The id of a new instance is chosen only when the instance is created.
  const name = isPresent ? formatInstance(instance) : `${instance.group}/${instance.index}`;
  const step = tried(() => {
    const decided = decideDeploy([instance], needs);
    const factsOfCpi = makesVm(decided, instance) ? facts.get(cpiFor(context, tx, instance)) : undefined;
    if (factsOfCpi instanceof DomainError) throw factsOfCpi;
    if (factsOfCpi !== undefined) intentOf(context, tx, instance, factsOfCpi.apiVersion);
    return decided;
  });
  if (step instanceof DomainError) return [{ name, text: `would fail: ${messageOf(step)}`, error: step }];
  if (step.do === "nothing") return [];
  const why = "because" in step ? `: ${step.because}` : "";
  const whose = step.instance.instanceId === instance.instanceId ? name : formatInstance(step.instance);
  return [{ name: whose, text: `${DEEDS[step.do]}${why}` }];
}

/** Returns the DomainError that `decide` throws. */
function tried<Result>(decide: () => Result): Result | DomainError {
  try {
    return decide();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
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
