import { messageOf } from "@diskmesh/domain";
import { checkCount, checkWatchTime } from "../specs/update-block.js";
import type { Issue } from "./document.js";
import {
  addressesOf,
  type GroupDocument,
  type ManifestDocument,
  migratedFromSchema,
  nicGroupOf,
} from "./manifest-document.js";
import { nameSchema } from "./schema.js";
import { variableIssues } from "./variables.js";

type Path = readonly PropertyKey[];

/** Keys about jobs, at the top level and in instance groups. They are refused, or ignored with `ignoreJobs`. */
export const OF_JOBS: readonly string[] = ["releases", "addons", "jobs", "properties"];

const NO_JOBS = "diskmesh runs no jobs: leave it out, or set deployments.ignoreJobs in the director's config";

const UPDATE_KEYS = [
  "canaries",
  "max_in_flight",
  "canary_watch_time",
  "update_watch_time",
  "serial",
  "vm_strategy",
  "initial_deploy_az_update_strategy",
];
const STEMCELL_KEYS = ["alias", "os", "name", "version"];
const NETWORK_KEYS = ["name", "static_ips", "default", "nic_group"];
const GROUP_KEYS = [
  "name",
  "instances",
  "azs",
  "vm_type",
  "vm_extensions",
  "stemcell",
  "networks",
  "env",
  "persistent_disk",
  "persistent_disk_type",
  "persistent_disk_pool",
  "update",
  "migrated_from",
  "lifecycle",
  "jobs",
  "properties",
];
/** Refused by the schema, whose message names the replacement. */
const REFUSED_GROUP_KEYS = ["vm_resources", "persistent_disks"];

/** Yields the faults of a new manifest beyond its schema. */
export function* issuesOf(manifest: ManifestDocument, ignoreJobs: boolean): Generator<Issue> {
  yield* jobIssues(manifest, ignoreJobs, []);
  for (const key of ["variables", "features", "compilation"]) {
    if (!isEmpty(manifest[key])) yield { path: [key], message: "is not supported: leave it out" };
  }
  yield* updateIssues(manifest.update, ["update"]);
  for (const [index, stemcell] of (manifest.stemcells ?? []).entries())
    yield* unknownKeys(stemcell, STEMCELL_KEYS, ["stemcells", index]);
  const groups = manifest.instance_groups ?? [];
  for (const [index, group] of groups.entries()) yield* groupIssues(group, ["instance_groups", index], ignoreJobs);
  yield* migrationIssues(groups);
  yield* variableIssues(manifest, (key, path) => ignoreJobs && isOfJobs(key, path));
}

function* groupIssues(group: GroupDocument, place: Path, ignoreJobs: boolean): Generator<Issue> {
  yield* unknownKeys(group, [...GROUP_KEYS, ...REFUSED_GROUP_KEYS], place, GROUP_KEYS);
  yield* jobIssues(group, ignoreJobs, place);
  if (group.lifecycle != null && group.lifecycle !== "service")
    yield { path: [...place, "lifecycle"], message: "is not supported: there are no errands, only `service`" };
  yield* updateIssues(group.update, [...place, "update"]);
  yield* diskIssues(group, place);
  yield* defaultIssues(group, place);
  yield* staticIpIssues(group, place);
  for (const [at, network] of (group.networks ?? []).entries()) {
    const path = [...place, "networks", at];
    yield* unknownKeys(network, NETWORK_KEYS, path);
    if (nicGroupOf(network.nic_group) === undefined)
      yield { path: [...path, "nic_group"], message: "give a whole number of at most nine digits" };
  }
}

function* unknownKeys(
  value: Readonly<Record<string, unknown>>,
  known: readonly string[],
  place: Path,
  told = known,
): Generator<Issue> {
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) yield { path: [...place, key], message: `is unknown: known are ${told.join(", ")}` };
  }
}

/** Empty values, as the CLI writes them, request nothing. */
export function isEmpty(value: unknown): boolean {
  return value == null || (typeof value === "object" && Object.keys(value).length === 0);
}

function* jobIssues(value: Readonly<Record<string, unknown>>, ignoreJobs: boolean, place: Path): Generator<Issue> {
  if (ignoreJobs) return;
  for (const key of OF_JOBS) if (!isEmpty(value[key])) yield { path: [...place, key], message: NO_JOBS };
}

function* updateIssues(update: unknown, path: Path): Generator<Issue> {
  if (update == null) return;
  if (typeof update !== "object" || Array.isArray(update)) {
    yield { path, message: "give a mapping" };
    return;
  }
  const block = update as Readonly<Record<string, unknown>>;
  yield* unknownKeys(block, UPDATE_KEYS, path);
  const checks: readonly (readonly [string, (value: unknown) => void])[] = [
    ["canaries", checkCount],
    ["max_in_flight", checkCount],
    ["canary_watch_time", checkWatchTime],
    ["update_watch_time", checkWatchTime],
  ];
  for (const [key, check] of checks) {
    try {
      if (block[key] != null) check(block[key]);
    } catch (error) {
      yield { path: [...path, key], message: messageOf(error) };
    }
  }
  if (block.serial != null && typeof block.serial !== "boolean")
    yield { path: [...path, "serial"], message: "give true or false" };
  const only = { vm_strategy: "delete-create", initial_deploy_az_update_strategy: "serial" } as const;
  for (const [key, value] of Object.entries(only)) {
    if (block[key] != null && block[key] !== value)
      yield { path: [...path, key], message: `is not supported: leave it out, or give \`${value}\`` };
  }
}

function* diskIssues(group: GroupDocument, place: Path): Generator<Issue> {
  const { persistent_disk, persistent_disk_type, persistent_disk_pool: pool } = group;
  if (pool == null) return;
  const path = [...place, "persistent_disk_pool"];
  if (!nameSchema.safeParse(pool).success) yield { path, message: "give the name of a disk type" };
  if (persistent_disk != null || persistent_disk_type != null)
    yield {
      path,
      message: "is the old name of persistent_disk_type: give only persistent_disk_type, and no persistent_disk",
    };
}

function* migrationIssues(groups: readonly GroupDocument[]): Generator<Issue> {
  const names = new Set(groups.map(({ name }) => name));
  const takenBy = new Map<string, string>();
  for (const [index, group] of groups.entries()) {
    if (group.migrated_from == null) continue;
    const path = ["instance_groups", index, "migrated_from"];
    const { data } = migratedFromSchema.safeParse(group.migrated_from);
    if (data === undefined) {
      yield {
        path,
        message: "give a list of {name: OLD_GROUP}, each with an optional az of the old group's instances",
      };
      continue;
    }
    for (const [at, { name, az }] of data.entries()) {
      const place = [...path, at];
      if (name !== group.name && names.has(name))
        yield { path: place, message: `instance group \`${name}\` is still in the manifest: remove it` };
      const other = takenBy.get(name);
      if (other !== undefined) yield { path: place, message: `\`${name}\` already migrates to \`${other}\`` };
      takenBy.set(name, group.name);
      if (az != null && !(group.azs ?? []).includes(az))
        yield { path: [...place, "az"], message: "is not an az of the group" };
    }
  }
}

/** Returns true for a job key at the top level or in an instance group. */
function isOfJobs(key: string, path: Path): boolean {
  return OF_JOBS.includes(key) && (path.length === 1 || (path.length === 3 && path[0] === "instance_groups"));
}

/**
 * Yields faults of the default networks. Among several networks exactly one must be the default for dns and one for
 * gateway.
 */
function* defaultIssues({ networks }: GroupDocument, place: Path): Generator<Issue> {
  if (networks == null || networks.length < 2) return;
  const path = [...place, "networks"];
  for (const what of ["dns", "gateway", "addressable"] as const) {
    const names = networks.filter((network) => network.default?.includes(what)).map(({ name }) => `\`${name}\``);
    if (names.length > 1)
      yield { path, message: `only one network can be the default for ${what}, but ${names.join(", ")} are` };
    if (names.length === 0 && what !== "addressable")
      yield { path, message: `one network must be the default for ${what}` };
  }
}

function* staticIpIssues({ networks, instances }: GroupDocument, place: Path): Generator<Issue> {
  for (const [index, { static_ips }] of (networks ?? []).entries()) {
    if (static_ips == null || static_ips.length === 0) continue;
    const path = [...place, "networks", index, "static_ips"];
    const addresses = static_ips.flatMap(addressesOf);
    if (addresses.length !== instances)
      yield {
        path,
        message: `has ${addresses.length} addresses for ${instances} instances: give each instance an address`,
      };
    if (new Set(addresses).size < addresses.length) yield { path, message: "has an address twice" };
  }
}
