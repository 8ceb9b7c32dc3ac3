import { InvalidArgumentError } from "@diskmesh/domain";
import { NO_AZ } from "../specs/cloud-config.js";
import type { GroupSpec } from "../specs/instance-group.js";
import type { WantedStemcell } from "../specs/stemcell.js";
import { updateBlockOf } from "../specs/update-block.js";
import type { JsonObject } from "../store/json.js";
import { type Checks, parseYaml, type TextLimits } from "./document.js";
import {
  addressesOf,
  countAddresses,
  type GroupDocument,
  KNOWN_KEYS,
  MAX_STATIC_IPS,
  type ManifestDocument,
  manifestSchema,
  migratedFromSchema,
  nicGroupOf,
} from "./manifest-document.js";
import { isEmpty, issuesOf, OF_JOBS } from "./manifest-rules.js";
import { findTwoMeanings } from "./yaml-versions.js";

export interface Manifest {
  readonly name: string;
  readonly stemcells: readonly WantedStemcell[];
  readonly tags: JsonObject;
  readonly groups: readonly GroupSpec[];
  /** Warnings about parts of the manifest that have no effect. */
  readonly warnings: readonly string[];
}

export interface ManifestLimits extends TextLimits {
  readonly instances: number;
  /** Ignores releases, jobs and addons with a warning. */
  readonly ignoreJobs: boolean;
}

/** Parses a deployment manifest in BOSH's format. */
export function parseManifest(text: string, limits: ManifestLimits): Manifest {
  const { ignoreJobs } = limits;
  const checks: Checks<ManifestDocument> = {
    knownKeys: KNOWN_KEYS,
    faultOf: (document) => findTwoMeanings(document, (key, depth) => ignoreJobs && isLeftOut(key, depth)),
    issuesOf: (document) => {
      refuseManyGroups(document.instance_groups ?? [], limits);
      return issuesOf(document, ignoreJobs);
    },
  };
  const parsed = parseYaml(text, manifestSchema, { ...limits, holdsSecrets: true }, checks);
  const stemcells = (parsed.stemcells ?? []).map(({ alias, os, name, version }) => ({
    alias,
    os: os ?? "",
    name: name ?? "",
    version,
  }));
  const groups = (parsed.instance_groups ?? []).map((group) => toGroup(group, parsed.update));
  refuseTwice(
    stemcells.map((stemcell) => stemcell.alias),
    (alias) => `the ${limits.what} has two stemcells \`${alias}\``,
  );
  refuseTwice(
    groups.map((group) => group.name),
    (name) => `the ${limits.what} has two instance groups named \`${name}\``,
  );
  const aliases = new Set(stemcells.map((stemcell) => stemcell.alias));
  for (const group of groups) checkGroup(group, aliases, limits.what);
  return { name: parsed.name, stemcells, tags: parsed.tags ?? {}, groups, warnings: warningsOf(parsed) };
}

/** Returns true for an ignored YAML pair, recognized by its key and its depth: top level or instance group. */
function isLeftOut(key: string, depth: number): boolean {
  return OF_JOBS.includes(key) && (depth === 2 || depth === 5);
}

function warningsOf(manifest: ManifestDocument): string[] {
  const holders: readonly Readonly<Record<string, unknown>>[] = [manifest, ...(manifest.instance_groups ?? [])];
  const leftOut = OF_JOBS.filter((key) => holders.some((holder) => !isEmpty(holder[key])));
  return leftOut.length === 0
    ? []
    : [`${leftOut.join(", ")} of the manifest are ignored: none of them runs on the VMs`];
}

/** Checked before groups are expanded, because even an empty group costs memory and time. */
function refuseManyGroups(groups: readonly GroupDocument[], { what, instances: most }: ManifestLimits): void {
  const limit = `the limit is ${most}`;
  if (groups.length > most)
    throw new InvalidArgumentError(`the ${what} has ${groups.length} instance groups: ${limit}`);
  const instances = groups.reduce((sum, group) => sum + group.instances, 0);
  if (instances > most) throw new InvalidArgumentError(`the ${what} wants ${instances} instances: ${limit}`);
  const ranges = groups.flatMap((group) => (group.networks ?? []).flatMap((network) => network.static_ips ?? []));
  const addresses = ranges.reduce((sum, range) => sum + countAddresses(range), 0);
  if (addresses > MAX_STATIC_IPS) {
    throw new InvalidArgumentError(`the ${what} has ${addresses} static_ips: the limit is ${MAX_STATIC_IPS}`);
  }
}

function toGroup(group: GroupDocument, update: unknown): GroupSpec {
  const { persistent_disk: sizeMib, persistent_disk_pool: pool } = group;
  const type = group.persistent_disk_type ?? (sizeMib == null && typeof pool === "string" ? pool : undefined);
  return {
    name: group.name,
    instances: group.instances,
    azs: group.azs ?? [NO_AZ.name],
    vmType: group.vm_type ?? "",
    vmExtensions: group.vm_extensions ?? [],
    stemcell: group.stemcell ?? "",
    networks: (group.networks ?? []).map((network) => ({
      name: network.name,
      staticIps: (network.static_ips ?? []).flatMap(addressesOf),
      default: network.default ?? [],
      nicGroup: nicGroupOf(network.nic_group) ?? "",
    })),
    env: group.env ?? {},
    migratedFrom: (migratedFromSchema.safeParse(group.migrated_from).data ?? []).map(({ name, az }) => ({
      name,
      az: az ?? "",
    })),
    ...((sizeMib != null || type != null) && { persistentDisk: { sizeMib: sizeMib ?? 0, type: type ?? "" } }),
    update: updateBlockOf(update, group.update),
  };
}

function checkGroup(group: GroupSpec, stemcells: ReadonlySet<string>, what: string): void {
  const where = `in instance group \`${group.name}\``;
  refuseTwice(group.azs, (az) => `the ${what} names az \`${az}\` twice ${where}`);
  refuseTwice(
    group.networks.map((network) => network.name),
    (name) => `the ${what} names network \`${name}\` twice ${where}`,
  );
  if (group.stemcell !== "" && !stemcells.has(group.stemcell)) {
    throw new InvalidArgumentError(
      `the ${what} uses stemcell \`${group.stemcell}\` ${where}, but has no stemcell with that alias: correct the name, or add the alias to stemcells`,
    );
  }
}

function refuseTwice(names: readonly string[], text: (name: string) => string): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw new InvalidArgumentError(text(name));
    seen.add(name);
  }
}
