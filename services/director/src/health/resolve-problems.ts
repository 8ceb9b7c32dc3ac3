import { DomainError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import { cpisOfStep } from "../cpi/cpi-target.js";
import { cpisOfDeployment } from "../deployments/deployment-steps.js";
import { vmGone, vmLost } from "../instances/instance.js";
import { requireDeployment } from "../instances/recorded-deployments.js";
import { compareLocks, type LockName } from "../locks/locks.js";
import { formatInstance } from "../store/instance.js";
import type { Finding, Problem, Resolution } from "../store/problem.js";
import { type DirectorTables, type DirectorTransaction, problemKey } from "../store/schema.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { HealthJobContext } from "./context.js";
import { inspect, type Subject } from "./inspection.js";
import { findingKey, nextToResolve, planOf } from "./problem.js";
import { holdersOf, RESOLUTIONS } from "./resolutions.js";
import { diskByCid, showed } from "./scan.js";

/** Resolves a deployment's problems one by one. A failure does not prevent the resolution of other problems. */
export const resolveProblems: Planner<"resolve_problems", HealthJobContext> = (context, job, tables, taskId) => {
  const { deployment } = job;
  requireDeployment(tables, deployment);
  const ofCpis = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, deployment));
  const ownLock: LockName = { type: "deployment", resource: deployment };
  const problems = [...tables.problems.by("byDeployment", deployment)];
  const next = nextToResolve(problems, job, taskId);
  if (next === undefined) return { locks: [ownLock], ...ofCpis, run: async () => conclude(problems, taskId) };
  const { problem, resolution } = next;
  return {
    locks: [ownLock, ...locksOf(tables, problem)].sort(compareLocks),
    ...ofCpis,
    run: async (run) => {
      await resolve(context, run, problem, resolution);
      return undefined;
    },
  };
};

/** Returns the locks of the problem's instances, of all their dynamic disks, and of the problem's disk. */
function locksOf(tables: DirectorTables, problem: Problem): LockName[] {
  const instanceIds = new Set(holdersOf(tables, problem).map(({ instanceId }) => instanceId));
  if (problem.instanceId !== "") instanceIds.add(problem.instanceId);
  const disks = new Set<string>();
  for (const instanceId of instanceIds)
    for (const { name } of tables.disks.by("byInstance", instanceId)) disks.add(name);
  if (problem.disk !== null) disks.add(problem.disk.key);
  return [
    ...[...instanceIds].map((resource): LockName => ({ type: "instance", resource })),
    ...[...disks].map((resource): LockName => ({ type: "disk", resource })),
  ];
}

async function resolve(
  context: HealthJobContext,
  run: TaskRun,
  problem: Problem,
  resolution: Resolution,
): Promise<void> {
  const shown = `${problem.type} (${problem.problemId}): ${planOf(resolution)}`;
  try {
    await run.stage(
      "Applying problem resolutions",
      shown,
      async () => {
        const begun = await begin(context, run, problem, resolution);
        if (begun === undefined) return end(context, run, problem, { open: false, outcome: GONE });
        await RESOLUTIONS[resolution](context, run, begun);
        return end(context, run, problem, { open: false, outcome: `${resolution}: done` });
      },
      problem.description,
    );
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    await end(context, run, problem, { open: true, outcome: `${resolution}: ${messageOf(error)}` });
  }
}

const GONE = "the problem no longer exists: nothing was done";

/**
 * Inspects the problem again and records that the task acts on it. Returns undefined when the problem no longer exists.
 */
async function begin(
  context: HealthJobContext,
  run: TaskRun,
  problem: Problem,
  resolution: Resolution,
): Promise<Problem | undefined> {
  const isBegun = problem.begunByTaskId === run.taskId;
  if (isBegun || resolution === "ignore") return problem;
  await context.tablet.read((tables) => refuseIgnored(tables, problem));
  const finding = await findAgain(context, run, problem);
  if (finding === undefined) return undefined;
  const begun = { ...problem, ...finding, begunByTaskId: run.taskId };
  await context.tablet.transact((tx) => {
    tx.problems.put(begun);
    if (resolution === "recreate_vm" || resolution === "delete_vm") loseVm(tx, problem);
  });
  return begun;
}

function refuseIgnored(tables: DirectorTables, problem: Problem): void {
  const own = tables.instances.get(problem.instanceId);
  const ignored = [...holdersOf(tables, problem), ...(own === undefined ? [] : [own])].find(({ ignore }) => ignore);
  if (ignored !== undefined)
    throw new InvalidStateError(`${formatInstance(ignored)} is ignored: unignore it first`, {
      reason: "INSTANCE_IGNORED",
    });
}

/** Marks the current VM as lost, so that a later attempt after a crash does not treat the new VM as faulty. */
function loseVm(tx: DirectorTransaction, { instanceId, type }: Problem): void {
  const instance = tx.instances.get(instanceId);
  if (instance?.vmState !== "created" && instance?.vmState !== "running") return;
  tx.instances.put(type === "missing_vm" ? vmGone(instance) : vmLost(instance));
}

async function findAgain(context: HealthJobContext, run: TaskRun, problem: Problem): Promise<Finding | undefined> {
  const { type, instanceId, diskCid, cpi } = problem;
  if (type === "unknown_vm") return findIn(context, run, problem, { instanceIds: [], disks: [], cpis: [cpi] });
  const subject = await context.tablet.read((tables) => {
    const holders = holdersOf(tables, problem).map((holder) => holder.instanceId);
    const disk = type === "missing_disk" ? diskByCid(tables, diskCid) : undefined;
    const instanceIds = type === "missing_disk" || instanceId === "" ? holders : [instanceId, ...holders];
    return { instanceIds, disks: disk === undefined ? [] : [disk], cpis: [] };
  });
  // The disk or instance is no longer recorded.
  if (subject.instanceIds.length + subject.disks.length === 0) return undefined;
  return findIn(context, run, problem, subject);
}

async function findIn(
  context: HealthJobContext,
  run: TaskRun,
  problem: Problem,
  subject: Subject,
): Promise<Finding | undefined> {
  const { deployment, type, diskCid, cpi } = problem;
  const { findings, sights, diskExists, listed, unseen } = await inspect(context, run, deployment, subject);
  const found = findings.find((finding) => findingKey(finding) === findingKey(problem));
  if (found !== undefined) return found;
  const sight = sights.get(subject.instanceIds[0] ?? "");
  if (showed(type, { sight, diskExists: diskExists.get(diskCid), isListed: listed.has(cpi) })) return undefined;
  throw new UnavailableError(`the problem could not be checked again: ${[...unseen].join("; ")}`);
}

async function end(
  context: HealthJobContext,
  run: TaskRun,
  { problemId }: Problem,
  how: Pick<Problem, "open" | "outcome">,
): Promise<void> {
  await context.tablet.transact((tx) => {
    const current = tx.problems.get(problemKey(problemId));
    if (current !== undefined) tx.problems.put({ ...current, ...how, handledByTaskId: run.taskId });
  });
}

/** Returns the outcome of each problem. Throws when a problem was not resolved. */
function conclude(problems: readonly Problem[], taskId: number): string {
  const handled = problems.filter(({ handledByTaskId }) => handledByTaskId === taskId);
  const lines = handled.map(({ problemId, type, outcome }) => `${type} (${problemId}): ${outcome}`);
  const failed = handled.filter(({ open }) => open);
  if (failed.length === 0) return lines.length === 0 ? "there is no problem" : lines.join("\n");
  throw new InvalidStateError(`${failed.length} of ${handled.length} problems were not resolved\n${lines.join("\n")}`);
}
