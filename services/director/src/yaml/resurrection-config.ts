import { InvalidArgumentError } from "@diskmesh/domain";
import * as z from "zod";
import type { GroupFilter, ResurrectionRule } from "../specs/resurrection-rule.js";
import { parseYaml, type TextLimits } from "./document.js";
import { nameSchema } from "./schema.js";

const names = z.array(nameSchema).nullish();

const filterSchema = z
  .strictObject({ deployments: names, instance_groups: names })
  .refine(
    (filter) => (filter.deployments?.length ?? 0) + (filter.instance_groups?.length ?? 0) > 0,
    "name deployments, or instance_groups, or leave it out",
  )
  // An empty filter is refused, because it would match every group, e.g. after an indentation error.
  .optional();

const resurrectionConfigSchema = z.strictObject({
  rules: z.array(z.strictObject({ enabled: z.boolean(), include: filterSchema, exclude: filterSchema })),
});

/** Maximum rules in a config, because all rules are evaluated for each VM. */
const MAX_RULES = 1_000;

/** Parses a config of type "resurrection" in BOSH's format. */
export function parseResurrectionConfig(content: string, limits: TextLimits): ResurrectionRule[] {
  const { rules } = parseYaml(content, resurrectionConfigSchema, limits, { knownKeys: ["rules"] });
  if (!limits.stored && rules.length > MAX_RULES)
    throw new InvalidArgumentError(`the ${limits.what} has ${rules.length} rules: the limit is ${MAX_RULES}`);
  return rules.map(({ enabled, include, exclude }) => ({
    isOn: enabled,
    include: toFilter(include),
    exclude: toFilter(exclude),
  }));
}

function toFilter(filter: z.output<typeof filterSchema>): GroupFilter {
  return { deployments: filter?.deployments ?? [], groups: filter?.instance_groups ?? [] };
}
