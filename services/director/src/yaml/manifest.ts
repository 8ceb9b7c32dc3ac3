import { InvalidArgumentError } from "@diskmesh/domain";
import { z } from "zod";
import { formatIp, parseIpRange } from "../model/ip.js";
import type { JsonObject } from "../model/json.js";
import type { GroupSpec } from "../model/placement.js";
import type { WantedStemcell } from "../model/stemcell.js";
import { parseYaml, type TextLimits } from "./document.js";
import { checkedText, nameSchema, propertiesSchema } from "./schema.js";

/** Of one range, and of all in a manifest: a few bytes can stand for millions. */
const MAX_IPS_OF_RANGE = 10_000;
const MAX_STATIC_IPS = 20_000;

const groupSchema = z
  .looseObject({
    name: nameSchema,
    instances: z.int().min(0),
    azs: z.array(nameSchema).min(1, "give at least one az"),
    vm_type: nameSchema.nullish(),
    vm_extensions: z.array(nameSchema).nullish(),
    vm_resources: z.undefined({ error: "is not supported: give vm_type" }).optional(),
    stemcell: nameSchema.nullish(),
    networks: z
      .array(
        z.looseObject({
          name: nameSchema,
          static_ips: z.array(checkedText(parseIpRange)).nullish(),
          default: z.array(z.enum(["dns", "gateway", "addressable"])).nullish(),
        }),
      )
      .nullish(),
    env: propertiesSchema.nullish(),
    persistent_disk: z.int().min(0).nullish(),
    persistent_disk_type: nameSchema.nullish(),
    persistent_disks: z.undefined({ error: "is not supported: give persistent_disk_type" }).optional(),
  })
  .refine(
    (group) => group.persistent_disk == null || group.persistent_disk_type == null,
    "give persistent_disk or persistent_disk_type, not both",
  );

const stemcellSchema = z
  .looseObject({
    alias: nameSchema,
    os: nameSchema.nullish(),
    name: nameSchema.nullish(),
    // YAML makes a number of 1.2; BOSH takes it for the text.
    version: z.union([nameSchema, z.number().transform(String)]),
  })
  .refine((stemcell) => (stemcell.os == null) !== (stemcell.name == null), "give either os or name");

// BOSH's other keys are let be. So are unknown ones within these.
const KNOWN_KEYS = [
  "name",
  "director_uuid",
  "releases",
  "stemcells",
  "update",
  "instance_groups",
  "compilation",
  "properties",
  "variables",
  "features",
  "tags",
  "addons",
];

const manifestSchema = z.looseObject({
  name: nameSchema,
  stemcells: z.array(stemcellSchema).nullish(),
  tags: propertiesSchema.nullish(),
  instance_groups: z.array(groupSchema).nullish(),
});

export interface Manifest {
  readonly name: string;
  readonly stemcells: readonly WantedStemcell[];
  readonly tags: JsonObject;
  readonly groups: readonly GroupSpec[];
}

export interface ManifestLimits extends TextLimits {
  readonly instances: number;
}

/** A deployment manifest in BOSH's format. */
export function parseManifest(text: string, limits: ManifestLimits): Manifest {
  const parsed = parseYaml(text, manifestSchema, { ...limits, holdsSecrets: true }, KNOWN_KEYS);
  const stemcells = (parsed.stemcells ?? []).map(({ alias, os, name, version }) => ({
    alias,
    os: os ?? "",
    name: name ?? "",
    version,
  }));
  const specs = parsed.instance_groups ?? [];
  if (!limits.stored) refuseManyGroups(specs, limits);
  const groups = specs.map(toGroup);
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
  return { name: parsed.name, stemcells, tags: parsed.tags ?? {}, groups };
}

/** Before anything is made of them: a group of none costs as much to look after as one of few. */
function refuseManyGroups(
  groups: readonly z.output<typeof groupSchema>[],
  { what, instances: most }: ManifestLimits,
): void {
  const limit = `the limit is ${most} (content.instancesPerDeployment)`;
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

function toGroup(group: z.output<typeof groupSchema>): GroupSpec {
  const { persistent_disk: sizeMib, persistent_disk_type: type } = group;
  return {
    name: group.name,
    instances: group.instances,
    azs: group.azs,
    vmType: group.vm_type ?? "",
    vmExtensions: group.vm_extensions ?? [],
    stemcell: group.stemcell ?? "",
    networks: (group.networks ?? []).map((network) => ({
      name: network.name,
      staticIps: (network.static_ips ?? []).flatMap(addressesOf),
      default: network.default ?? [],
    })),
    env: group.env ?? {},
    ...((sizeMib != null || type != null) && { persistentDisk: { sizeMib: sizeMib ?? 0, type: type ?? "" } }),
  };
}

function addressesOf(text: string): string[] {
  const { first } = parseIpRange(text);
  return Array.from({ length: countAddresses(text) }, (_, index) => formatIp(first + index));
}

function countAddresses(text: string): number {
  const { first, last } = parseIpRange(text);
  return Math.min(last - first + 1, MAX_IPS_OF_RANGE);
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
      `the ${what} uses stemcell \`${group.stemcell}\` ${where}, which is no alias of its stemcells`,
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
