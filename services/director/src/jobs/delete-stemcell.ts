import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { CODES, coded } from "../model/bosh-codes.js";
import { deploymentsWith } from "../model/recorded-deployments.js";
import { stemcellKey } from "../model/schema.js";
import { formatStemcell, type Stemcell } from "../model/stemcell.js";
import type { JobOf } from "../model/task.js";
import { cpisOfStep } from "../steps/cpi-target.js";
import type { StemcellJobContext } from "../steps/job-context.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Planner } from "./job.js";

type DeleteJob = JobOf<"delete_stemcell">;

/** Deletes a stemcell from all CPIs that have it. */
export const deleteStemcell: Planner<"delete_stemcell", StemcellJobContext> = (context, job, tables) => ({
  locks: [{ type: "stemcell", resource: formatStemcell(job) }],
  ...cpisOfStep(context, tables, ...[...tables.stemcells.by("byStemcell", formatStemcell(job))].map(({ cpi }) => cpi)),
  run: (run) => deleteAll(context, run, job),
});

async function deleteAll(context: StemcellJobContext, run: TaskRun, job: DeleteJob): Promise<string> {
  const shown = formatStemcell(job);
  const stemcells = await context.tablet.transact((tx) => {
    const users = deploymentsWith(tx, job);
    if (users.length > 0 && !job.force) {
      const names = users.map((name) => `\`${name}\``).join(", ");
      throw coded(
        CODES.stemcellInUse,
        new InvalidStateError(
          `stemcell \`${shown}\` is in use by deployments ${names}: delete these first, or force it`,
          { about: { stemcell: shown } },
        ),
      );
    }
    // From now on no VM is made of it.
    const all = [...tx.stemcells.by("byStemcell", shown)].map((stemcell) => ({ ...stemcell, deleting: true }));
    for (const stemcell of all) tx.stemcells.put(stemcell);
    return all;
  });
  for (const stemcell of stemcells) await deleteOne(context, run, stemcell, job.force);
  return `/stemcells/${shown}`;
}

async function deleteOne(context: StemcellJobContext, run: TaskRun, stemcell: Stemcell, force: boolean): Promise<void> {
  const { cpi, stemcellCid } = stemcell;
  const name = `Deleting stemcell ${formatStemcell(stemcell)}${cpi === "" ? "" : ` (cpi: ${cpi})`}`;
  try {
    await run.stage("Delete stemcell", name, async () => {
      if (stemcellCid === "") return;
      const call = context.cpi.call("deleteStemcell", { cpi }, { stemcellCid }, run);
      await tolerate(call, (error) => error.cause instanceof NotFoundError);
    });
  } catch (error) {
    run.checkpoint();
    // Its event has said why.
    if (!(force && error instanceof CpiCallError)) throw error;
  }
  await context.tablet.transact((tx) => tx.stemcells.delete(stemcellKey(stemcell)));
}
