import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { azNamed } from "../model/cloud-config.js";
import { cpiOfAz } from "../model/cpi-choice.js";
import { placeInstances } from "../model/placement.js";
import type { DirectorTables } from "../schema.js";
import type { TaskRun } from "../workers/task-run.js";
import { type Manifest, parseManifest } from "../yaml/manifest.js";
import type { JobContext } from "./job.js";

/** Nothing may be added to a deployment whose deletion has begun. */
function refuseDeletingDeployment(tables: DirectorTables, name: string): void {
  if (tables.deployments.get(name)?.deleting !== true) return;
  throw new InvalidStateError(`deployment \`${name}\` is being deleted: delete it again to finish that first`, {
    about: { deployment: name },
  });
}

/** A disk can be added to a deployment only while it is there. */
export function refuseUnlessOpen(tables: DirectorTables, name: string): void {
  if (!tables.deployments.has(name)) {
    throw new NotFoundError(`deployment \`${name}\` not found`, { about: { deployment: name } });
  }
  refuseDeletingDeployment(tables, name);
}

/** Reads a manifest and checks it against the cloud configs. */
export function checkedManifest(
  context: Pick<JobContext, "config" | "cloudConfigs" | "cpiConfigs">,
  tables: DirectorTables,
  text: string,
): Manifest {
  const manifest = readManifest(context, text);
  const cpis = context.cpiConfigs.current(tables);
  for (const az of manifest.groups.flatMap((group) => group.azs))
    cpiOfAz(azNamed(context.cloudConfigs.current(tables), az), cpis);
  return manifest;
}

export function readManifest({ config }: Pick<JobContext, "config">, text: string): Manifest {
  const { manifestSizeBytes: sizeBytes, instancesPerDeployment: instances } = config.content;
  return parseManifest(text, { what: "manifest", sizeBytes, instances });
}

/** Makes the manifest the deployment's, with the instances it wants and those it no longer wants marked, all at once. */
export async function recordManifest(context: JobContext, run: TaskRun, name: string, text: string): Promise<void> {
  await run.stage("Preparing deployment", name, () =>
    context.tablet.transact((tx) => {
      refuseDeletingDeployment(tx, name);
      const manifest = checkedManifest(context, tx, text);
      const existing = [...tx.instances.by("byDeployment", name)];
      const placement = placeInstances(name, manifest.groups, existing, context.newId);
      tx.deployments.put({ name, manifest: text, deleting: false });
      for (const instance of placement.added) tx.instances.put(instance);
      for (const instance of placement.leaving) tx.instances.put({ ...instance, leaving: true });
    }),
  );
}
