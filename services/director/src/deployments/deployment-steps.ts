import { randomUUID } from "node:crypto";
import { InvalidStateError } from "@diskmesh/domain";
import { CLOUD } from "../configs/cloud-configs.js";
import { latestConfigs } from "../configs/latest-configs.js";
import { cpiFacts } from "../cpi/make-once.js";
import { persistentDiskOf, refuseDeletingDeployment } from "../instances/recorded-deployments.js";
import { azNamed, NO_AZ } from "../specs/cloud-config.js";
import { cpiOfAz } from "../specs/cpi-choice.js";
import type { GroupSpec } from "../specs/instance-group.js";
import { formatInstance, type Instance } from "../store/instance.js";
import { sameJson } from "../store/json.js";
import type { DirectorTables, DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import { planVm } from "../vms/vm-spec.js";
import type { DeploymentJobContext } from "./context.js";
import { checkManifest, missingOf, place } from "./manifest-check.js";
import { reserveAddresses } from "./reserve-addresses.js";

/** Returns the CPIs that a deployment may need: the CPIs of its azs and the CPIs of its existing objects. */
export function cpisOfDeployment(
  context: Pick<DeploymentJobContext, "configs">,
  tables: DirectorTables,
  deployment: string,
  groups: readonly GroupSpec[] = [],
): string[] {
  const azs = new Set(groups.flatMap((group) => group.azs));
  const wanted = [NO_AZ, ...context.configs.cloud.current(tables).azs].filter((az) => azs.has(az.name));
  const made = [...tables.instances.by("byDeployment", deployment)].filter(({ vmState }) => vmState !== "none");
  const persistent = [...tables.persistentDisks.by("byDeployment", deployment)];
  const attachable = persistent.filter((disk) => disk.orphanedAtMs === null);
  const things = [...wanted, ...made, ...attachable, ...tables.disks.by("byDeployment", deployment)];
  return things.map(({ cpi }) => cpi);
}

export interface WantedManifest {
  readonly name: string;
  readonly text: string;
  /** The teams of the caller; absent for an administrator. */
  readonly teams?: readonly string[] | undefined;
}

/** Records the manifest with its added and leaving instances in one transaction. */
export async function recordManifest(
  context: DeploymentJobContext,
  run: TaskRun,
  wanted: WantedManifest,
): Promise<undefined> {
  const { name, text } = wanted;
  await run.stage("Preparing deployment", name, async () => {
    await refuseBareGroups(context, run, text);
    await context.tablet.transact((tx) => putManifest(context, tx, wanted));
  });
  return undefined;
}

/** Throws a DomainError for an invalid manifest. */
export function putManifest(context: DeploymentJobContext, tx: DirectorTransaction, wanted: WantedManifest): void {
  const { name, text } = wanted;
  refuseDeletingDeployment(tx, name);
  const manifest = context.configs.manifests.get(text);
  checkManifest(context.configs, tx, manifest);
  const placement = place(tx, name, manifest.groups, context.configs.cloud.current(tx), randomUUID);
  const present = tx.deployments.get(name);
  const teams = present === undefined ? wanted.teams : present.teams;
  const own = { name, manifest: text, cloudConfigIds: cloudConfigIds(tx) };
  tx.deployments.put({ ...own, deleting: false, checkedByTaskId: 0, ...(teams && { teams }) });
  for (const instance of placement.added) tx.instances.put(instance);
  for (const instance of placement.migrated) {
    tx.instances.put(instance);
    const disk = persistentDiskOf(tx, instance.instanceId);
    if (disk !== undefined) tx.persistentDisks.put({ ...disk, group: instance.group });
  }
  for (const instance of placement.leaving) tx.instances.put({ ...instance, leaving: true });
  for (const instance of tx.instances.by("byDeployment", name)) refuseMovingIgnored(context, tx, instance);
  reserveAddresses(context, tx, name);
}

/** Returns the ids of the latest cloud configs, from which new VMs are made. */
export function cloudConfigIds(tables: DirectorTables): readonly number[] {
  return latestConfigs(tables, CLOUD).map(({ configId }) => configId);
}

/**
 * Throws InvalidStateError for groups without stemcell, VM type or networks when their CPI creates VMs. CPIs whose VMs
 * already exist accept such groups.
 */
export async function refuseBareGroups(context: DeploymentJobContext, run: TaskRun, text: string): Promise<void> {
  const bare = await context.tablet.read((tables) => {
    const manifest = context.configs.manifests.get(text);
    checkManifest(context.configs, tables, manifest);
    const config = context.configs.cloud.current(tables);
    const names = context.configs.cpi.current(tables);
    return manifest.groups
      .map((group) => ({ group, missing: missingOf(group) }))
      .filter(({ missing }) => missing !== "")
      .flatMap(({ group, missing }) =>
        group.azs.map((az) => ({ group, missing, az, cpi: cpiOfAz(azNamed(config, az), names) })),
      );
  });
  const needsVmSpec = new Map<string, boolean>();
  for (const { group, missing, az, cpi } of bare) {
    const needs = needsVmSpec.get(cpi) ?? (await cpiFacts(context, run, { cpi, az, azCpi: cpi })).needsVmSpec;
    needsVmSpec.set(cpi, needs);
    if (needs)
      throw new InvalidStateError(
        `instance group \`${group.name}\` names no ${missing}, but ${cpi === "" ? "the default CPI" : `CPI \`${cpi}\``} needs them to create VMs: add them; only VMs that are hosts of a fleet need none`,
      );
  }
}

/**
 * Throws InvalidStateError when the manifest changes the networks of an ignored instance, because ignored instances
 * cannot be updated.
 */
function refuseMovingIgnored(context: DeploymentJobContext, tables: DirectorTables, instance: Instance): void {
  const { ignore, basis, ips } = instance;
  if (!ignore || !basis || instance.leaving) return;
  const plan = planVm(context, tables, instance);
  const names = (networks: object) => Object.keys(networks).sort();
  if (sameJson(names(plan.basis.networks), names(basis.networks)) && sameJson(plan.ips, ips)) return;
  throw new InvalidStateError(
    `${formatInstance(instance)} is ignored, and the manifest changes its networks or addresses: keep the networks and addresses, or unignore the instance first`,
    { reason: "INSTANCE_IGNORED", about: { instance_id: instance.instanceId } },
  );
}
