import { InvalidStateError } from "@diskmesh/domain";
import { allCpis } from "../cpi/cpi-target.js";
import { currentCpi } from "../specs/cpi-choice.js";
import type { DirectorTables } from "../store/schema.js";
import { formatStemcell, type Stemcell } from "../store/stemcell.js";
import type { JobOf } from "../store/task.js";
import type { Planner } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { StemcellJobContext } from "./context.js";

type UpdateJob = JobOf<"update_stemcell">;

/**
 * Creates an uploaded stemcell with every CPI that accepts it and does not have it yet, the default CPI included. A
 * failure of the default CPI beside a cpi-config fails no upload, because only instances without an AZ use that CPI.
 */
export const updateStemcell: Planner<"update_stemcell", StemcellJobContext> = (context, job, tables) => ({
  locks: [{ type: "stemcell", resource: formatStemcell(job) }],
  cpis: cpisToAsk(context, tables, job).cpis,
  run: (run) => update(context, run, job),
});

/** Returns the CPIs to call. CPIs that have the stemcell or do not take it are skipped unless `fix` is set. */
export function cpisToAsk(
  context: Pick<StemcellJobContext, "configs">,
  tables: DirectorTables,
  job: Pick<UpdateJob, "name" | "version" | "fix">,
): { readonly cpis: readonly string[]; readonly exceptCpis: string[]; readonly existing: readonly Stemcell[] } {
  const existing = [...tables.stemcells.by("byStemcell", formatStemcell(job))];
  const names = context.configs.cpi.current(tables);
  const settled = existing.flatMap(({ cpi, unfitCpis = [] }) => [cpi, ...unfitCpis]);
  const exceptCpis = job.fix ? [] : [...new Set(settled.map((cpi) => currentCpi(cpi, names) ?? cpi))];
  return { cpis: allCpis(context, tables).filter((cpi) => !exceptCpis.includes(cpi)), exceptCpis, existing };
}

async function update(context: StemcellJobContext, run: TaskRun, job: UpdateJob): Promise<string> {
  const shown = formatStemcell(job);
  const { existing, ...asked } = await context.tablet.read((tables) => ({
    ...cpisToAsk(context, tables, job),
    isConfigured: context.configs.cpi.current(tables).cpis !== undefined,
  }));
  if (existing.some((stemcell) => stemcell.deleting)) {
    throw new InvalidStateError(`stemcell \`${shown}\` is being deleted: repeat the deletion until it ends`, {
      reason: "BEING_DELETED",
    });
  }
  const made = await run.stage("Update stemcell", `Uploading stemcell ${shown} to the cloud`, () =>
    create(context, run, job, asked),
  );
  const failed = made.filter(({ cpi, error }) => error !== "" && !(asked.isConfigured && cpi === ""));
  if (failed.length > 0) {
    const reasons = failed.map(({ cpi, error }) => `${cpi === "" ? "the default CPI" : `CPI \`${cpi}\``}: ${error}`);
    throw new InvalidStateError(
      `stemcell \`${shown}\` was not created with ${reasons.join("; ")}; upload it again to create it with these CPIs`,
    );
  }
  return `/stemcells/${shown}`;
}

interface Asked {
  readonly cpis: readonly string[];
  readonly exceptCpis: string[];
  /** True when there is a cpi-config. */
  readonly isConfigured: boolean;
}

async function create(
  context: StemcellJobContext,
  run: TaskRun,
  job: UpdateJob,
  { cpis, exceptCpis, isConfigured }: Asked,
): Promise<{ readonly cpi: string; readonly error: string }[]> {
  const { name, version, operatingSystem, apiVersion } = job;
  const request = {
    imagePath: context.stemcellFiles.imagePath(job.uploadId),
    cloudProperties: { ...job.cloudProperties },
    stemcellFormats: [...job.formats],
    tags: {},
    exceptCpis,
  };
  const { stemcells } = await context.cpi.call("createStemcell", { cpi: "" }, request, run, {
    timeoutMs: context.limits.stemcells.createTimeoutMs,
    // Not repeated, because a second call could create an unrecorded duplicate.
    repeatUnknown: false,
  });
  await context.tablet.transact((tx) => {
    for (const { cpi, stemcellCid, error } of stemcells) {
      if (error !== "") continue;
      const facts = { name, version, operatingSystem, apiVersion, cpi, deleting: false };
      const made: Stemcell = { ...facts, stemcellCid, createdAtMs: context.clock.nowMs() };
      tx.stemcells.put(made);
    }
    // A dispatcher does not call CPIs of other formats, so their entries are missing.
    const answered = stemcells.map(({ cpi }) => cpi);
    const unfitCpis = cpis.filter((cpi) => !answered.includes(cpi));
    for (const each of [...tx.stemcells.by("byStemcell", formatStemcell(job))]) {
      const earlier = (each.unfitCpis ?? []).filter((cpi) => !cpis.includes(cpi));
      tx.stemcells.put({ ...each, unfitCpis: [...earlier, ...unfitCpis] });
    }
  });
  for (const { cpi, stemcellCid, error } of stemcells) {
    const of = cpi === "" ? "the default CPI" : `cpi: ${cpi}`;
    const what = `stemcell ${formatStemcell(job)}${isConfigured ? ` (${of})` : ""}`;
    const made = stemcellCid || "the CPI needs no stemcell";
    run.note("Update stemcell", error === "" ? `Save ${what} (${made})` : `No ${what}: ${error}`);
  }
  return stemcells;
}
