import { cpisOfStep } from "../cpi/cpi-target.js";
import { cpisOfDeployment } from "../deployments/deployment-steps.js";
import { instancesOf, requireDeployment } from "../instances/recorded-deployments.js";
import type { Finding } from "../store/problem.js";
import { nextNumber, problemKey } from "../store/schema.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { HealthJobContext } from "./context.js";
import { inspect } from "./inspection.js";
import { recordFindings } from "./problem.js";
import { disksToFind } from "./scan.js";

/** Finds differences between records and reality, and records them as problems without changing anything else. */
export const scanDeployment: Planner<"scan_deployment", HealthJobContext> = (context, { deployment }, tables) => {
  requireDeployment(tables, deployment);
  const { cpis } = cpisOfStep(context, tables, ...cpisOfDeployment(context, tables, deployment));
  const locks = [{ type: "deployment", resource: deployment }] as const;
  return { locks, cpis, run: (run) => scan(context, run, deployment, new Set(cpis)) };
};

async function scan(
  context: HealthJobContext,
  run: TaskRun,
  deployment: string,
  cpis: ReadonlySet<string>,
): Promise<string> {
  return run.stage("Scanning deployment", deployment, async () => {
    const subject = await context.tablet.read((tables) => ({
      instanceIds: instancesOf(tables, deployment).map(({ instanceId }) => instanceId),
      disks: disksToFind(tables, deployment),
      cpis: [...cpis],
    }));
    const { findings, unseen } = await inspect(context, run, deployment, subject);
    const kept = findings.slice(0, MAX_PROBLEMS_PER_DEPLOYMENT);
    await record(context, deployment, kept);
    const unrecorded =
      kept.length < findings.length
        ? [`${findings.length - kept.length} more problems than the ${MAX_PROBLEMS_PER_DEPLOYMENT} that are recorded`]
        : [];
    const untold = [...unrecorded, ...unseen, NEVER_SEEN];
    for (const what of untold) run.note("Not seen", what);
    for (const { description, type } of kept) run.note("Problem found", `${type}: ${description}`);
    return `${countedProblems(kept.length)}; not seen: ${untold.join("; ")}`;
  });
}

/** Maximum number of problems recorded per deployment. Each problem is a document of the tablet. */
const MAX_PROBLEMS_PER_DEPLOYMENT = 10_000;
/** Every scan reports these disks as not seen, because no CPI method lists disks. */
const NEVER_SEEN = "disks that are not recorded here";

function countedProblems(count: number): string {
  return count === 1 ? "1 problem" : `${count} problems`;
}

function record(context: HealthJobContext, deployment: string, findings: readonly Finding[]): Promise<void> {
  const nowMs = context.clock.nowMs();
  return context.tablet.transact((tx) => {
    const recorded = [...tx.problems.by("byDeployment", deployment)];
    const { put, forget } = recordFindings(recorded, findings, () => nextNumber(tx, "problem"), nowMs);
    for (const { problemId } of forget) tx.problems.delete(problemKey(problemId));
    for (const problem of put) tx.problems.put(problem);
  });
}
