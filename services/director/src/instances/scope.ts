import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { Scope } from "../store/scope.js";

type Scoped = Scope | undefined;

export function coversDeployment(scope: Scoped, { deployments }: DirectorTables, deployment: string): boolean {
  if (scope === undefined) return true;
  if ("name" in scope) return scope.name === deployment && deployment !== "";
  return deployments.get(deployment)?.teams?.some((team) => scope.teams.includes(team)) ?? false;
}

/** Returns true when the scope covers the disk's deployment. A disk without deployment has the scope of its maker. */
export function coversDisk(scope: Scoped, tables: DirectorTables, disk: Pick<Disk, "deployment" | "scope">): boolean {
  if (scope === undefined || disk.deployment !== "") return coversDeployment(scope, tables, disk.deployment);
  const { scope: made } = disk;
  if (made === undefined) return false;
  if ("name" in made) return "name" in scope && scope.name === made.name;
  return "teams" in scope && made.teams.some((team) => scope.teams.includes(team));
}

/** Returns the disk of the name; undefined when there is none, or the scope does not cover it. */
export function diskIn(scope: Scoped, tables: DirectorTables, name: string): Disk | undefined {
  const disk = tables.disks.get(name);
  return disk && coversDisk(scope, tables, disk) ? disk : undefined;
}

/** Returns true when a disk that the scope does not cover has the name. */
export function isNameTaken(scope: Scoped, tables: DirectorTables, name: string): boolean {
  return tables.disks.has(name) && diskIn(scope, tables, name) === undefined;
}

/** Returns the instance; undefined when there is none, or the scope does not cover it. */
export function instanceIn(scope: Scoped, tables: DirectorTables, instanceId: string): Instance | undefined {
  const instance = tables.instances.get(instanceId);
  return instance && coversDeployment(scope, tables, instance.deployment) ? instance : undefined;
}

/**
 * Returns false for a host that runs a VM of a deployment outside of the scope. Hosts belong to nobody, so a caller with
 * a scope may use every other host. The agent of a VM that is a host has the host's ID.
 */
export function coversHost(scope: Scoped, tables: DirectorTables, hostId: string): boolean {
  if (scope === undefined) return true;
  const instances = [...tables.instances.by("byAgent", hostId)];
  return instances.every(({ deployment }) => coversDeployment(scope, tables, deployment));
}

/**
 * Returns the rows of a list that the scope covers. A list begins with them rather than with `matches`: page tokens then
 * name no other row, and a page without a next page is the last.
 */
export function rowsIn<Row>(scope: Scoped, rows: Iterable<Row>, isCovered: (row: Row) => boolean): Iterable<Row> {
  return scope === undefined ? rows : filtered(rows, isCovered);
}

function* filtered<Row>(rows: Iterable<Row>, isCovered: (row: Row) => boolean): Generator<Row> {
  for (const row of rows) if (isCovered(row)) yield row;
}
