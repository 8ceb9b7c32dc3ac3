import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import type { JobContext } from "../jobs/job.js";
import { type Az, azNamed } from "../model/cloud-config.js";
import { cpiOfAz } from "../model/cpi-choice.js";
import type { Instance } from "../model/instance.js";
import { networkNamed } from "../model/networks.js";
import { wantedPersistentDisk } from "../model/persistent-disk.js";
import { type GroupSpec, placeInstances } from "../model/placement.js";
import { chooseStemcell } from "../model/stemcell.js";
import { vmCloudProperties } from "../model/vm-spec.js";
import type { DirectorTables } from "../schema.js";
import type { TaskRun } from "../workers/task-run.js";
import type { Manifest } from "../yaml/manifest.js";

/** In order of group and index. */
export function instancesOf(tables: DirectorTables, deployment: string): Instance[] {
  return [...tables.instances.by("byDeployment", deployment)].sort((a, b) =>
    a.group < b.group ? -1 : a.group > b.group ? 1 : a.index - b.index,
  );
}

/** Every CPI that a deployment may have to do with: those of its azs, and those that have what it has already. */
export function cpisOfDeployment(
  context: Pick<JobContext, "cloudConfigs">,
  tables: DirectorTables,
  deployment: string,
  groups: readonly GroupSpec[] = [],
): string[] {
  const azs = new Set(groups.flatMap((group) => group.azs));
  const wanted = context.cloudConfigs.current(tables).azs.filter((az) => azs.has(az.name));
  const made = [...tables.instances.by("byDeployment", deployment)].filter(({ vmState }) => vmState !== "none");
  const persistent = [...tables.persistentDisks.by("byDeployment", deployment)];
  const attachable = persistent.filter((disk) => disk.orphanedAtMs === null);
  const things = [...wanted, ...made, ...attachable, ...tables.disks.by("byDeployment", deployment)];
  return things.map(({ cpi }) => cpi);
}

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

/** Checks a manifest against the configs and stemcells there are. */
export function checkManifest(
  context: Pick<JobContext, "cloudConfigs" | "cpiConfigs">,
  tables: DirectorTables,
  manifest: Manifest,
): void {
  const config = context.cloudConfigs.current(tables);
  const names = context.cpiConfigs.current(tables);
  const stemcells = [...tables.stemcells.entries()];
  const cpiByAz = new Map<Az, string>();
  const cpiOf = (az: Az): string => {
    const cpi = cpiByAz.get(az) ?? cpiOfAz(az, names);
    cpiByAz.set(az, cpi);
    return cpi;
  };
  for (const group of manifest.groups) {
    vmCloudProperties(group, {}, config);
    wantedPersistentDisk(group, config);
    for (const network of group.networks) networkNamed(config.networks, network.name);
    const wanted = manifest.stemcells.find((stemcell) => stemcell.alias === group.stemcell);
    const cpis = new Set(group.azs.map((az) => cpiOf(azNamed(config, az))));
    for (const cpi of cpis) if (wanted !== undefined) chooseStemcell(wanted, cpi, stemcells, names);
  }
}

/** Makes the manifest the deployment's, with the instances it wants and those it no longer wants marked, all at once. */
export async function recordManifest(
  context: JobContext,
  run: TaskRun,
  name: string,
  text: string,
): Promise<undefined> {
  await run.stage("Preparing deployment", name, () =>
    context.tablet.transact((tx) => {
      refuseDeletingDeployment(tx, name);
      const manifest = context.manifests.get(text);
      checkManifest(context, tx, manifest);
      const existing = [...tx.instances.by("byDeployment", name)];
      const placement = placeInstances(name, manifest.groups, existing, context.newId);
      tx.deployments.put({ name, manifest: text, deleting: false, checkedByTaskId: 0 });
      for (const instance of placement.added) tx.instances.put(instance);
      for (const instance of placement.leaving) tx.instances.put({ ...instance, leaving: true });
    }),
  );
  return undefined;
}
