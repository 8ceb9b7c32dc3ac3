import * as z from "zod";
import { formatIp, parseIpRange } from "../specs/ip.js";
import { checkedText, nameSchema, propertiesSchema } from "./schema.js";

/** Maximum addresses of a range and of a manifest, because a short text can specify millions. */
const MAX_IPS_OF_RANGE = 10_000;
export const MAX_STATIC_IPS = 20_000;

const groupSchema = z
  .looseObject({
    name: nameSchema,
    instances: z.int().min(0),
    azs: z.array(nameSchema).min(1, "give at least one az, or leave azs out").nullish(),
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
          nic_group: z.unknown().optional(),
        }),
      )
      .nullish(),
    env: propertiesSchema.nullish(),
    persistent_disk: z.int().min(0).nullish(),
    persistent_disk_type: nameSchema.nullish(),
    // Accepted unchecked, because earlier releases ignored these keys.
    persistent_disk_pool: z.unknown().optional(),
    migrated_from: z.unknown().optional(),
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
    // YAML parses 1.2 as a number; BOSH accepts it as a version.
    version: z.union([nameSchema, z.number().transform(String)]),
  })
  .refine((stemcell) => (stemcell.os == null) !== (stemcell.name == null), "give either os or name");

// Unsupported keys are accepted when empty, because the CLI sends `releases: []` and the like.
export const KNOWN_KEYS = [
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

export const manifestSchema = z.looseObject({
  name: nameSchema,
  stemcells: z.array(stemcellSchema).nullish(),
  tags: propertiesSchema.nullish(),
  instance_groups: z.array(groupSchema).nullish(),
});

export type ManifestDocument = z.output<typeof manifestSchema>;
export type GroupDocument = z.output<typeof groupSchema>;

export const migratedFromSchema = z.array(z.strictObject({ name: nameSchema, az: nameSchema.nullish() }));

/** Parses a NIC group, given as a number or text. Returns undefined when invalid, null when absent. */
export function nicGroupOf(value: unknown): string | null | undefined {
  if (value === null || value === undefined) return null;
  const text = String(value);
  return /^(0|[1-9][0-9]{0,8})$/.test(text) ? text : undefined;
}

/** Returns the addresses of an element of `static_ips`. */
export function addressesOf(text: string): string[] {
  const { first } = parseIpRange(text);
  return Array.from({ length: countAddresses(text) }, (_, index) => formatIp(first + BigInt(index)));
}

export function countAddresses(text: string): number {
  const { first, last } = parseIpRange(text);
  const count = last - first + 1n;
  return count > MAX_IPS_OF_RANGE ? MAX_IPS_OF_RANGE : Number(count);
}
