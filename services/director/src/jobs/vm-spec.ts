import { InvalidStateError } from "@diskmesh/domain";
import { azNamed } from "../model/cloud-config.js";
import { cpiOfAz } from "../model/cpi-choice.js";
import { formatInstance, type Instance, type VmIntent } from "../model/instance.js";
import { settleNetworks } from "../model/networks.js";
import type { GroupSpec } from "../model/placement.js";
import { chooseStemcell, formatStemcell, type Stemcell } from "../model/stemcell.js";
import { needsRegistry, vmCloudProperties, vmEnv } from "../model/vm-spec.js";
import type { DirectorTables } from "../schema.js";
import type { Manifest } from "../yaml/manifest.js";
import type { JobContext } from "./job.js";

/** What an instance's VM is to be made of, but for what only its CPI can say. */
interface VmPlan {
  readonly cpi: string;
  readonly stemcell: Stemcell | undefined;
}

export function groupOf(manifest: Manifest, instance: Pick<Instance, "group" | "deployment">): GroupSpec {
  const group = manifest.groups.find((each) => each.name === instance.group);
  // Instances whose group has gone are leaving, and get no VMs.
  if (group === undefined)
    throw new InvalidStateError(`deployment \`${instance.deployment}\` has no group \`${instance.group}\``);
  return group;
}

export function manifestOf(context: JobContext, tables: DirectorTables, deployment: string): Manifest {
  return context.manifests.read(tables.deployments.get(deployment)?.manifest ?? "");
}

/** The CPI, by the az, and its stemcell. */
export function planVm(context: JobContext, tables: DirectorTables, instance: Instance): VmPlan {
  const manifest = manifestOf(context, tables, instance.deployment);
  const cpis = context.cpiConfigs.current(tables);
  const az = azNamed(context.cloudConfigs.current(tables), instance.az);
  const cpi = cpiOfAz(az, cpis);
  const { stemcell: alias } = groupOf(manifest, instance);
  const wanted = manifest.stemcells.find((stemcell) => stemcell.alias === alias);
  const stemcell = wanted && chooseStemcell(wanted, cpi, [...tables.stemcells.entries()], cpis);
  return { cpi, stemcell };
}

/** The whole intent, from what is recorded now. */
export function intentOf(
  context: JobContext,
  tables: DirectorTables,
  instance: Instance,
  cpiApiVersion: number,
): VmIntent {
  const manifest = manifestOf(context, tables, instance.deployment);
  const config = context.cloudConfigs.current(tables);
  const group = groupOf(manifest, instance);
  const { cpi, stemcell } = planVm(context, tables, instance);
  const usesRegistry = needsRegistry(cpiApiVersion, stemcell?.apiVersion);
  if (usesRegistry && context.config.registry === undefined) {
    throw new InvalidStateError(
      `${formatInstance(instance)} needs the Registry, since its CPI or its stemcell is of version 1: add \`registry\` to the director's config`,
    );
  }
  const { networks, ips } = settleNetworks(group.networks, config.networks, {
    group: group.name,
    index: instance.index,
    az: instance.az,
    ips: instance.ips,
    isTaken: addressesTaken(tables, instance),
  });
  const { name: director, agents } = context.config;
  const identity = { director, deployment: instance.deployment, group: group.name, tags: manifest.tags };
  return {
    vmToken: context.newId(),
    cpi,
    stemcell: stemcell === undefined ? "" : formatStemcell(stemcell),
    stemcellApiVersion: stemcell?.apiVersion ?? 0,
    cpiApiVersion,
    usesRegistry,
    ips,
    vmSpec: {
      stemcellCid: stemcell?.stemcellCid ?? "",
      cloudProperties: vmCloudProperties(group, azNamed(config, instance.az).cloudProperties, config),
      networks,
      env: vmEnv(group.env, identity, usesRegistry ? undefined : agents.settings),
    },
  };
}

function addressesTaken(tables: DirectorTables, self: Instance): (network: string, ip: string) => boolean {
  const taken = new Set<string>();
  for (const other of tables.instances.entries()) {
    if (other.instanceId === self.instanceId) continue;
    for (const [network, ip] of Object.entries(other.ips)) taken.add(`${network} ${ip}`);
  }
  return (network, ip) => taken.has(`${network} ${ip}`);
}
