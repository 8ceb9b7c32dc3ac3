import { allCpis, cpisOfStep } from "../cpi/cpi-target.js";
import { cpisOfDeletion, deleteOrphan } from "../cpi/delete-orphan.js";
import type { DeletableOrphan } from "../cpi/possible-orphan.js";
import { deleteOrphanedDisk } from "../disks/persistent/delete-orphaned-disk.js";
import type { LockName } from "../locks/locks.js";
import type { DirectorTables } from "../store/schema.js";
import { formatStemcell } from "../store/stemcell.js";
import type { CleanUpScope } from "../store/task.js";
import type { Planner, Step } from "../tasks/job.js";
import { finish, runAll } from "../tasks/run-all.js";
import { runLane } from "../tasks/run-lane.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { StemcellJobContext } from "./context.js";
import { deleteStemcell } from "./delete-stemcell.js";
import { surplusOf } from "./surplus.js";

/**
 * Deletes unused objects one at a time. Continues after a failed deletion; the task then fails with the errors of all
 * failed deletions.
 */
export const cleanUp: Planner<"clean_up", StemcellJobContext> = (context, job, tables) => {
  const { stemcells, disks, orphans } = surplusOf(tables, job);
  const havers = stemcells.flatMap((stemcell) => [...tables.stemcells.by("byStemcell", formatStemcell(stemcell))]);
  const { cpis } = cpisOfStep(context, tables, ...[...havers, ...disks].map(({ cpi }) => cpi));
  return {
    locks: [],
    // Objects that their CPI does not have are searched for with the other CPIs.
    cpis: disks.length + orphans.length === 0 ? cpis : [...cpis, ...allCpis(context, tables)],
    run: (run) => deleteSurplus(context, run, job),
  };
};

interface Surplus {
  readonly name: string;
  /** Returns undefined once the object is deleted or in use again. */
  readonly plan: (tables: DirectorTables) => Step | undefined;
}

async function deleteSurplus(context: StemcellJobContext, run: TaskRun, scope: CleanUpScope): Promise<string> {
  const all = await context.tablet.read((tables) => allSurplus(context, run, scope, tables));
  const failures = await runAll(run, all, { atOnce: 1, goesOn: true }, ({ plan }) =>
    runLane(context, run, plan, async (lane, step) => {
      await step.run(lane);
    }),
  );
  finish(run, failures, "deletions");
  return "nothing is left to clean up";
}

/** Returns the lock that a deletion of the object by its CID takes, too. */
function lockOf({ kind, cid }: DeletableOrphan): LockName {
  return { type: kind === "vm" ? "instance" : "disk", resource: cid };
}

function allSurplus(
  context: StemcellJobContext,
  { taskId }: TaskRun,
  scope: CleanUpScope,
  tables: DirectorTables,
): Surplus[] {
  const { stemcells, disks, orphans } = surplusOf(tables, scope);
  return [
    ...orphans.map((orphan): Surplus => {
      const { token, kind, cid } = orphan;
      const run = async (run: TaskRun) =>
        run.stage(`Deleting orphaned ${kind}s`, cid, async () => {
          await deleteOrphan(context, run, orphan);
          return undefined;
        });
      return {
        name: `${kind} ${cid}`,
        plan: (now) =>
          now.possibleOrphans.get(token) === undefined
            ? undefined
            : { locks: [lockOf(orphan)], ...cpisOfDeletion(context, now, orphan.cpi), run },
      };
    }),
    ...stemcells.map((stemcell): Surplus => {
      const name = formatStemcell(stemcell);
      const job = { type: "delete_stemcell", ...stemcell, force: false } as const;
      const isLeft = (now: DirectorTables) => surplusOf(now, scope).stemcells.some((s) => formatStemcell(s) === name);
      return {
        name: `stemcell ${name}`,
        plan: (now) => (isLeft(now) ? deleteStemcell(context, job, now, taskId) : undefined),
      };
    }),
    ...disks.map(({ diskId, diskCid }): Surplus => {
      const job = { type: "delete_orphaned_disk", diskCid } as const;
      const isLeft = (now: DirectorTables) => typeof now.persistentDisks.get(diskId)?.orphanedAtMs === "number";
      return {
        name: `disk ${diskCid}`,
        plan: (now) => (isLeft(now) ? deleteOrphanedDisk(context, job, now, taskId) : undefined),
      };
    }),
  ];
}
