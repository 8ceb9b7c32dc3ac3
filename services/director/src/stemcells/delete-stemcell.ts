import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { CpiCallError, tolerate } from "../cpi/cpi-error.js";
import { cpisOfStep } from "../cpi/cpi-target.js";
import { deploymentsWith } from "../instances/recorded-deployments.js";
import { stemcellKey } from "../store/schema.js";
import { formatStemcell, type Stemcell } from "../store/stemcell.js";
import type { JobOf } from "../store/task.js";
import { CODES, coded } from "../tasks/bosh-codes.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { StemcellJobContext } from "./context.js";

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
          { reason: "STEMCELL_IN_USE", about: { stemcell: shown } },
        ),
      );
    }
    // Marked first, so that no further VM is made from the stemcell.
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
    // With `force` an error of the CPI does not stop the deletion. The failed step's event has reported the error.
    if (!(force && error instanceof CpiCallError)) throw error;
  }
  await context.tablet.transact((tx) => tx.stemcells.delete(stemcellKey(stemcell)));
}
