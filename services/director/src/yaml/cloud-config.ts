import { InvalidArgumentError } from "@diskmesh/domain";
import * as z from "zod";
import type { CloudConfig } from "../specs/cloud-config.js";
import { bitsOf, parseCidr, parseIp, parseIpRange } from "../specs/ip.js";
import { faultOf, hasOverlap, type Network, type Subnet } from "../specs/subnets.js";
import { type Issue, parseYaml, type TextLimits } from "./document.js";
import { checkedText, nameSchema, propertiesSchema } from "./schema.js";
import { variableIssues } from "./variables.js";

const named = z.looseObject({ name: nameSchema, cloud_properties: propertiesSchema.nullish() });
const ip = checkedText(parseIp);
const ranges = z.union([checkedText(parseIpRange), z.array(checkedText(parseIpRange))]).nullish();

const subnetSchema = z.looseObject({
  range: checkedText(parseCidr).nullish(),
  gateway: ip.nullish(),
  az: nameSchema.nullish(),
  azs: z.array(nameSchema).nullish(),
  static: ranges,
  reserved: ranges,
  dns: z.array(ip).nullish(),
  cloud_properties: propertiesSchema.nullish(),
  prefix: z.unknown().optional(),
});

const networkSchema = z
  .looseObject({
    name: nameSchema,
    type: z.enum(["manual", "dynamic", "vip"]).default("manual"),
    subnets: z.array(subnetSchema).nullish(),
    dns: z.array(ip).nullish(),
    cloud_properties: propertiesSchema.nullish(),
  })
  .refine(
    (network) => network.type !== "manual" || (network.subnets ?? []).every((subnet) => subnet.range != null),
    "every subnet of a manual network needs a range",
  );

/** Only BOSH uses it. It is ignored, like unknown keys below the other keys, so that BOSH and diskmesh can share a config. */
const IGNORED_KEY = "compilation";
const KNOWN_KEYS = ["azs", "vm_types", "vm_extensions", "disk_types", "networks", IGNORED_KEY];

const cloudConfigSchema = z.looseObject({
  azs: z.array(named.extend({ cpi: nameSchema.nullish() })).nullish(),
  vm_types: z.array(named).nullish(),
  vm_extensions: z.array(named).nullish(),
  disk_types: z.array(named.extend({ disk_size: z.int().min(1) })).nullish(),
  networks: z.array(networkSchema).nullish(),
});

/** Maximum names of each kind in a config, because merged configs are checked for duplicates. */
const MAX_NAMES = 10_000;

/** Parses a cloud config in BOSH's format. */
export function parseCloudConfig(content: string, limits: TextLimits): CloudConfig {
  const parsed = parseYaml(content, cloudConfigSchema, limits, { knownKeys: KNOWN_KEYS, issuesOf });
  if (!limits.stored) refuseManyNames(parsed, limits.what);
  const properties = ({ name, cloud_properties }: z.output<typeof named>) => ({
    name,
    cloudProperties: cloud_properties ?? {},
  });
  return {
    azs: (parsed.azs ?? []).map((az) => ({ ...properties(az), cpi: az.cpi ?? "" })),
    vmTypes: (parsed.vm_types ?? []).map(properties),
    vmExtensions: (parsed.vm_extensions ?? []).map(properties),
    diskTypes: (parsed.disk_types ?? []).map((type) => ({ ...properties(type), sizeMib: type.disk_size })),
    networks: (parsed.networks ?? []).map(toNetwork),
  };
}

/** Yields the faults of a new cloud config beyond its schema. */
function* issuesOf(config: z.output<typeof cloudConfigSchema>): Generator<Issue> {
  yield* networkIssues(config);
  yield* variableIssues(config, (key, path) => path.length === 1 && key === IGNORED_KEY);
}

function* networkIssues({ networks }: z.output<typeof cloudConfigSchema>): Generator<Issue> {
  for (const [index, spec] of (networks ?? []).entries()) {
    const path = ["networks", index];
    for (const [at, subnet] of (spec.subnets ?? []).entries()) {
      const place = [...path, "subnets", at];
      if (subnet.az != null && subnet.azs != null) yield { path: place, message: "give az or azs, not both" };
      if (subnet.azs?.length === 0)
        yield { path: [...place, "azs"], message: "give at least one az, or leave azs out" };
      yield* prefixIssues(subnet, place);
      const fault = spec.type === "manual" ? faultOf(toSubnet(subnet)) : "";
      if (fault !== "") yield { path: place, message: fault };
    }
    if (spec.type === "manual" && hasOverlap(toNetwork(spec))) yield { path, message: "two of its subnets overlap" };
  }
}

/** Yields a fault for a prefix other than a single address, because VMs get no blocks of addresses. */
function* prefixIssues(subnet: z.output<typeof subnetSchema>, place: readonly PropertyKey[]): Generator<Issue> {
  const bits = subnet.range == null ? 32 : bitsOf(parseCidr(subnet.range).first);
  if (subnet.prefix == null || String(subnet.prefix) === String(bits)) return;
  yield { path: [...place, "prefix"], message: `VMs get no blocks of addresses: leave it out, or give ${bits}` };
}

function refuseManyNames(parsed: z.output<typeof cloudConfigSchema>, what: string): void {
  const { azs, vm_types, vm_extensions, disk_types, networks } = parsed;
  for (const [kind, list] of Object.entries({ azs, vm_types, vm_extensions, disk_types, networks })) {
    if (list == null || list.length <= MAX_NAMES) continue;
    throw new InvalidArgumentError(`the ${what} has ${list.length} ${kind}: the limit is ${MAX_NAMES}`);
  }
}

function toNetwork(network: z.output<typeof networkSchema>): Network {
  return {
    name: network.name,
    type: network.type,
    subnets: (network.subnets ?? []).map(toSubnet),
    dns: network.dns ?? [],
    cloudProperties: network.cloud_properties ?? {},
  };
}

function toSubnet(subnet: z.output<typeof subnetSchema>): Subnet {
  return {
    range: subnet.range ?? "",
    gateway: subnet.gateway ?? "",
    azs: subnet.azs ?? (subnet.az == null ? [] : [subnet.az]),
    static: toRanges(subnet.static),
    reserved: toRanges(subnet.reserved),
    dns: subnet.dns ?? [],
    cloudProperties: subnet.cloud_properties ?? {},
  };
}

function toRanges(value: string | readonly string[] | null | undefined): readonly string[] {
  return value == null ? [] : typeof value === "string" ? [value] : value;
}
