import { InvalidStateError } from "@diskmesh/domain";
import type { JsonObject } from "../store/json.js";
import { findNamed } from "./named.js";
import type { Network } from "./subnets.js";

export interface Az {
  readonly name: string;
  readonly cloudProperties: JsonObject;
  /** Empty for the default CPI. */
  readonly cpi: string;
}

/** The AZ of instances whose group names no AZ. */
export const NO_AZ: Az = { name: "", cloudProperties: {}, cpi: "" };

/** A disk type. Requests name it in disk_pool_name, as in seed 002. */
export interface DiskType {
  readonly name: string;
  readonly sizeMib: number;
  readonly cloudProperties: JsonObject;
}

/** A VM type or a VM extension. */
export interface NamedProperties {
  readonly name: string;
  readonly cloudProperties: JsonObject;
}

export interface CloudConfig {
  readonly azs: readonly Az[];
  readonly vmTypes: readonly NamedProperties[];
  readonly vmExtensions: readonly NamedProperties[];
  readonly diskTypes: readonly DiskType[];
  readonly networks: readonly Network[];
}

/** Merges named cloud configs by concatenating their lists. */
export function mergeCloudConfigs(configs: readonly CloudConfig[]): CloudConfig {
  return {
    azs: configs.flatMap((config) => config.azs),
    vmTypes: configs.flatMap((config) => config.vmTypes),
    vmExtensions: configs.flatMap((config) => config.vmExtensions),
    diskTypes: configs.flatMap((config) => config.diskTypes),
    networks: configs.flatMap((config) => config.networks),
  };
}

/** Returns the first duplicate name, e.g. "az `z1`"; undefined when there is none. */
export function findDuplicate(config: CloudConfig): string | undefined {
  const lists: readonly (readonly [string, readonly { readonly name: string }[]])[] = [
    ["az", config.azs],
    ["vm_type", config.vmTypes],
    ["vm_extension", config.vmExtensions],
    ["disk_type", config.diskTypes],
    ["network", config.networks],
  ];
  for (const [what, list] of lists) {
    const name = firstTwice(list.map((each) => each.name));
    if (name !== undefined) return `${what} \`${name}\``;
  }
  return undefined;
}

function firstTwice(names: readonly string[]): string | undefined {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

/** Returns the AZ, or `NO_AZ` for an empty name. */
export function azNamed(config: CloudConfig, name: string): Az {
  return name === NO_AZ.name ? NO_AZ : named("AZ", config.azs, name);
}

/** Returns the AZ of hosts, which need no cloud config; a cloud config may name the AZ's CPI. */
export function azOfHosts(config: CloudConfig, name: string): Az {
  return findNamed(config.azs, name) ?? { ...NO_AZ, name };
}

export function diskTypeNamed(config: CloudConfig, name: string): DiskType {
  const diskType = findNamed(config.diskTypes, name);
  if (diskType === undefined) {
    throw new InvalidStateError(
      `could not find disk type \`${name}\`: ${listed("disk_types", config.diskTypes)}; update the cloud config`,
      { reason: "NOT_IN_CLOUD_CONFIG", about: { disk_pool_name: name } },
    );
  }
  return diskType;
}

export function vmTypeNamed(config: CloudConfig, name: string): NamedProperties {
  return named("vm_type", config.vmTypes, name);
}

export function vmExtensionNamed(config: CloudConfig, name: string): NamedProperties {
  return named("vm_extension", config.vmExtensions, name);
}

export function networkNamed(networks: readonly Network[], name: string): Network {
  return named("network", networks, name);
}

function named<Part extends { readonly name: string }>(what: string, all: readonly Part[], name: string): Part {
  const found = findNamed(all, name);
  if (found !== undefined) return found;
  throw new InvalidStateError(
    `${what} \`${name}\` is in no cloud config: ${listed(`${what}s`, all)}; update the cloud config`,
    { reason: "NOT_IN_CLOUD_CONFIG", about: { [what.toLowerCase()]: name } },
  );
}

const MOST_NAMES_LISTED = 10;

function listed(what: string, all: readonly { readonly name: string }[]): string {
  if (all.length === 0) return `there are no ${what}`;
  const names = all.slice(0, MOST_NAMES_LISTED).map((each) => `\`${each.name}\``);
  return `the ${what} are ${names.join(", ")}${all.length > MOST_NAMES_LISTED ? ` and ${all.length - MOST_NAMES_LISTED} more` : ""}`;
}
