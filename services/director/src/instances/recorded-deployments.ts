import { InvalidStateError, NotFoundError, PermissionDeniedError } from "@diskmesh/domain";
import type { GroupSpec } from "../specs/instance-group.js";
import type { Disk } from "../store/disk.js";
import { addressKey, formatInstance, type Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { DirectorTables, DirectorTransaction } from "../store/schema.js";
import type { Scope } from "../store/scope.js";
import { formatStemcell } from "../store/stemcell.js";
import { coversDeployment } from "./scope.js";

/** Returns the deployment's instances sorted by group and index. */
export function instancesOf(tables: DirectorTables, deployment: string): Instance[] {
  return [...tables.instances.by("byDeployment", deployment)].sort((a, b) =>
    a.group < b.group ? -1 : a.group > b.group ? 1 : a.index - b.index,
  );
}

/** Returns the instance that has an address. An address belongs to at most one instance. */
export type OwnerOf = (network: string, ip: string) => Instance | undefined;

export function ownerIn(tables: DirectorTables): OwnerOf {
  return (network, ip) => {
    const [owner] = tables.instances.by("byAddress", addressKey(network, ip));
    return owner;
  };
}

/**
 * Returns another instance of the deployment whose VM still has an address that the manifest now assigns to this
 * instance.
 */
export function holderOf(tables: DirectorTables, group: GroupSpec, instance: Instance): Instance | undefined {
  const ownerOf = ownerIn(tables);
  for (const { name, staticIps } of group.networks) {
    const ip = staticIps[instance.index];
    const owner = ip === undefined ? undefined : ownerOf(name, ip);
    if (owner === undefined || owner.instanceId === instance.instanceId || owner.vmState === "none") continue;
    if (owner.deployment === instance.deployment) return owner;
  }
  return undefined;
}

/**
 * Removes the instance's addresses from other instances of the deployment that have no VM; those get new addresses
 * later.
 */
export function takeAddresses(tx: DirectorTransaction, { instanceId, deployment, ips }: Instance): void {
  const ownerOf = ownerIn(tx);
  for (const [network, ip] of Object.entries(ips)) {
    const other = ownerOf(network, ip);
    if (other === undefined || other.instanceId === instanceId || other.deployment !== deployment) continue;
    if (other.vmState !== "none") {
      throw new InvalidStateError(
        `${formatInstance(other)} still has an address that the manifest gives to another instance`,
      );
    }
    const { [network]: _, ...left } = other.ips;
    tx.instances.put({ ...other, ips: left });
  }
}

export function persistentDiskOf(tables: DirectorTables, instanceId: string): PersistentDisk | undefined {
  const [disk] = tables.persistentDisks.by("byInstance", instanceId);
  return disk;
}

/** Returns the second disk of an instance while its disk is copied. */
export function otherDiskOf(tables: DirectorTables, instanceId: string): PersistentDisk | undefined {
  const [disk] = tables.persistentDisks.by("otherOfInstance", instanceId);
  return disk;
}

/** Returns the names of the deployments with VMs made from the stemcell. */
export function deploymentsWith(tables: DirectorTables, stemcell: { name: string; version: string }): string[] {
  const names = new Set<string>();
  for (const instance of tables.instances.by("byStemcell", formatStemcell(stemcell))) names.add(instance.deployment);
  return [...names].sort();
}

/** Throws when the deployment is being deleted, because nothing may be added to it. */
export function refuseDeletingDeployment(tables: DirectorTables, name: string): void {
  if (tables.deployments.get(name)?.deleting !== true) return;
  throw new InvalidStateError(`deployment \`${name}\` is being deleted: repeat the deletion until it ends`, {
    reason: "BEING_DELETED",
    about: { deployment: name },
  });
}

/**
 * Throws PermissionDeniedError when the deployment exists and belongs to none of the teams. An empty list of teams
 * means that the caller needs none.
 */
export function refuseOtherTeams({ deployments }: DirectorTables, name: string, teams: readonly string[]): void {
  const deployment = deployments.get(name);
  if (teams.length === 0 || deployment === undefined || deployment.teams?.some((team) => teams.includes(team))) return;
  throw new PermissionDeniedError(`deployment \`${name}\` belongs to none of the teams ${teams.join(", ")}`, {
    about: { deployment: name },
  });
}

export function requireDeployment(tables: DirectorTables, name: string, scope?: Scope): void {
  if (!tables.deployments.has(name) || !coversDeployment(scope, tables, name))
    throw new NotFoundError(`deployment \`${name}\` not found`, { about: { deployment: name } });
}

/** Throws when the deployment has ignored instances, because these must not be deleted. */
export function refuseIgnoredInstances(tables: DirectorTables, name: string): void {
  const ignored = instancesOf(tables, name).find(({ ignore }) => ignore);
  if (ignored === undefined) return;
  throw new InvalidStateError(`${formatInstance(ignored)} of deployment \`${name}\` is ignored: unignore it first`, {
    reason: "INSTANCE_IGNORED",
    about: { deployment: name, instance_id: ignored.instanceId },
  });
}

/**
 * Throws unless the deployment exists in the caller's scope and is not being deleted, because only then disks can be
 * added to it.
 */
export function refuseUnlessOpen(tables: DirectorTables, name: string, scope?: Scope): void {
  requireDeployment(tables, name, scope);
  refuseDeletingDeployment(tables, name);
}

/** Returns the instance whose VM has the agent, and the dynamic disks that the agent was notified of. */
export function attachedTo(
  tables: DirectorTables,
  agentId: string,
): { readonly instance: Instance | undefined; readonly disks: readonly Disk[] } {
  const [instance] = tables.instances.by("byAgent", agentId);
  if (instance === undefined) return { instance, disks: [] };
  const disks = [...tables.disks.by("byInstance", instance.instanceId)];
  return { instance, disks: disks.filter(({ state, hint }) => state === "attached" && hint !== null) };
}
