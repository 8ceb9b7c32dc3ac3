import { randomUUID } from "node:crypto";
import { usesBoshRegistry } from "@diskmesh/cpi";
import { InvalidStateError } from "@diskmesh/domain";
import { groupOf, manifestOf } from "../configs/recorded-manifest.js";
import { memberOf, type VmIntent } from "../instances/instance.js";
import { ownerIn } from "../instances/recorded-deployments.js";
import type { WantedVm } from "../instances/vm-change.js";
import { vmCloudProperties, vmEnv } from "../instances/vm-spec.js";
import { azNamed } from "../specs/cloud-config.js";
import { cpiOfAz } from "../specs/cpi-choice.js";
import { chooseStemcell } from "../specs/stemcell.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import { formatStemcell, type Stemcell } from "../store/stemcell.js";
import type { VmJobContext } from "./context.js";
import { type FreeIn, type SettledNetworks, settleNetworks } from "./networks.js";

/** The plan of an instance's VM, without the facts that only the CPI reports. */
export interface VmPlan extends WantedVm {
  readonly stemcell: Stemcell | undefined;
  readonly ips: Readonly<Record<string, string>>;
}

/** Returns the name of the CPI that would make the instance's VM now. */
export function cpiFor(context: VmJobContext, tables: DirectorTables, { az }: Pick<Instance, "az">): string {
  return cpiOfAz(azNamed(context.configs.cloud.current(tables), az), context.configs.cpi.current(tables));
}

/**
 * Returns the networks and addresses of an instance's VM according to the manifest and the configs. No other instance
 * has the addresses.
 */
export function networksOf(
  context: VmJobContext,
  tables: DirectorTables,
  instance: Instance,
  freeIn?: FreeIn,
): SettledNetworks {
  const group = groupOf(manifestOf(context, tables, instance.deployment), instance);
  const ownerOf = ownerIn(tables);
  return settleNetworks(group.networks, context.configs.cloud.current(tables).networks, {
    group: group.name,
    index: instance.index,
    az: instance.az,
    ips: instance.ips,
    freeIn,
    isTaken: (network, ip) => (ownerOf(network, ip)?.instanceId ?? instance.instanceId) !== instance.instanceId,
    isForeign: (network, ip) => (ownerOf(network, ip)?.deployment ?? instance.deployment) !== instance.deployment,
  });
}

/** Returns the VM that the manifest and the configs specify for an instance now. */
export function planVm(context: VmJobContext, tables: DirectorTables, instance: Instance): VmPlan {
  const manifest = manifestOf(context, tables, instance.deployment);
  const config = context.configs.cloud.current(tables);
  const group = groupOf(manifest, instance);
  const cpis = context.configs.cpi.current(tables);
  const az = azNamed(config, instance.az);
  const cpi = cpiFor(context, tables, instance);
  const wanted = manifest.stemcells.find((stemcell) => stemcell.alias === group.stemcell);
  const chosen = wanted && chooseStemcell(wanted, cpi, [...tables.stemcells.entries()], cpis);
  // A CPI without stemcell support (empty stemcellCid) makes VMs without a stemcell, so a new stemcell is no reason to
  // recreate them.
  const stemcell = chosen?.stemcellCid === "" ? undefined : chosen;
  const { networks, ips } = networksOf(context, tables, instance);
  const basis = {
    stemcell: stemcell === undefined ? "" : formatStemcell(stemcell),
    cloudProperties: vmCloudProperties(group, az.cloudProperties, config),
    networks,
    env: group.env,
    tags: manifest.tags,
    member: memberOf(instance),
    vmType: group.vmType,
  };
  return { cpi, stemcell, ips, basis };
}

/** Returns the complete VM intent from the recorded state. */
export function intentOf(
  context: VmJobContext,
  tables: DirectorTables,
  instance: Instance,
  cpiApiVersion: number,
): VmIntent {
  const { cpi, stemcell, ips, basis } = planVm(context, tables, instance);
  const usesRegistry = usesBoshRegistry(cpiApiVersion, stemcell?.apiVersion ?? 0);
  if (usesRegistry && context.config.boshRegistry === undefined) {
    throw new InvalidStateError(
      `${formatInstance(instance)} needs the bosh-registry, because its CPI or its stemcell is of version 1: add \`boshRegistry\` to the director's config`,
    );
  }
  const { name: director } = context.config;
  const { cloudProperties, networks, env, tags } = basis;
  const identity = { director, deployment: instance.deployment, group: instance.group, tags };
  return {
    vmToken: randomUUID(),
    cpi,
    stemcell: basis.stemcell,
    stemcellApiVersion: stemcell?.apiVersion ?? 0,
    cpiApiVersion,
    usesRegistry,
    ips,
    basis,
    vmSpec: {
      stemcellCid: stemcell?.stemcellCid ?? "",
      cloudProperties,
      networks,
      env: vmEnv(env, identity, usesRegistry ? undefined : context.making.agentSettings),
    },
  };
}
