import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { formatInstance, type Instance } from "./instance.js";
import type { PersistentDisk } from "./persistent-disk.js";
import type { DirectorTables, DirectorTransaction } from "./schema.js";
import { formatStemcell } from "./stemcell.js";

/** In order of group and index. */
export function instancesOf(tables: DirectorTables, deployment: string): Instance[] {
  return [...tables.instances.by("byDeployment", deployment)].sort((a, b) =>
    a.group < b.group ? -1 : a.group > b.group ? 1 : a.index - b.index,
  );
}

/** Which instance has an address, by `addressKey`. No two have the same one. */
export type AddressOwners = ReadonlyMap<string, Instance>;

export function addressKey(network: string, ip: string): string {
  return `${network} ${ip}`;
}

export function addressOwners(tables: DirectorTables): AddressOwners {
  const owners = new Map<string, Instance>();
  for (const instance of tables.instances.entries()) {
    for (const [network, ip] of Object.entries(instance.ips)) owners.set(addressKey(network, ip), instance);
  }
  return owners;
}

/** An instance with a VM that still has one of the addresses that are to be another instance's. */
export function holderOf(owners: AddressOwners, { instanceId }: Instance, ips: Instance["ips"]): Instance | undefined {
  for (const [network, ip] of Object.entries(ips)) {
    const owner = owners.get(addressKey(network, ip));
    if (owner !== undefined && owner.instanceId !== instanceId && owner.vmState !== "none") return owner;
  }
  return undefined;
}

/** Others of the deployment, without VMs, are to get other addresses: what they had is the instance's now. */
export function takeAddresses(tx: DirectorTransaction, { instanceId, deployment, ips }: Instance): void {
  for (const other of [...tx.instances.by("byDeployment", deployment)]) {
    if (other.instanceId === instanceId) continue;
    const left = Object.entries(other.ips).filter(([network, ip]) => ips[network] !== ip);
    if (left.length === Object.keys(other.ips).length) continue;
    if (other.vmState !== "none") {
      throw new InvalidStateError(`${formatInstance(other)} still has an address that is to be another instance's`);
    }
    tx.instances.put({ ...other, ips: Object.fromEntries(left) });
  }
}

export function persistentDiskOf(tables: DirectorTables, instanceId: string): PersistentDisk | undefined {
  const [disk] = tables.persistentDisks.by("byInstance", instanceId);
  return disk;
}

/** The one beside it while it is copied. */
export function otherDiskOf(tables: DirectorTables, instanceId: string): PersistentDisk | undefined {
  const [disk] = tables.persistentDisks.by("otherOfInstance", instanceId);
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

export function requireDeployment(tables: DirectorTables, name: string): void {
  if (!tables.deployments.has(name))
    throw new NotFoundError(`deployment \`${name}\` not found`, { about: { deployment: name } });
}

/** What is ignored is not deleted. */
export function refuseIgnoredInstances(tables: DirectorTables, name: string): void {
  const ignored = instancesOf(tables, name).find(({ ignore }) => ignore);
  if (ignored === undefined) return;
  throw new InvalidStateError(`${formatInstance(ignored)} of deployment \`${name}\` is ignored: unignore it first`, {
    about: { deployment: name, instance_id: ignored.instanceId },
  });
}

/** A disk can be added to a deployment only while it is there. */
export function refuseUnlessOpen(tables: DirectorTables, name: string): void {
  requireDeployment(tables, name);
  refuseDeletingDeployment(tables, name);
}
