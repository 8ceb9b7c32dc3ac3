import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import type { Instance } from "./instance.js";
import type { PersistentDisk } from "./persistent-disk.js";
import type { DirectorTables } from "./schema.js";
import { formatStemcell } from "./stemcell.js";

/** In order of group and index. */
export function instancesOf(tables: DirectorTables, deployment: string): Instance[] {
  return [...tables.instances.by("byDeployment", deployment)].sort((a, b) =>
    a.group < b.group ? -1 : a.group > b.group ? 1 : a.index - b.index,
  );
}

export function persistentDiskOf(tables: DirectorTables, instanceId: string): PersistentDisk | undefined {
  const [disk] = tables.persistentDisks.by("byInstance", instanceId);
  return disk;
}

/** Of deployments with VMs made of the stemcell. */
export function deploymentsWith(tables: DirectorTables, stemcell: { name: string; version: string }): string[] {
  const names = new Set<string>();
  for (const instance of tables.instances.by("byStemcell", formatStemcell(stemcell))) names.add(instance.deployment);
  return [...names].sort();
}

/** Nothing may be added to a deployment whose deletion has begun. */
export function refuseDeletingDeployment(tables: DirectorTables, name: string): void {
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
