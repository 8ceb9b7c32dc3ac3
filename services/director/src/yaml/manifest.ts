import { InvalidArgumentError } from "@diskmesh/domain";
import { z } from "zod";
import type { InstanceGroup } from "../model/placement.js";
import { parseYaml, type TextLimits } from "./document.js";
import { nameSchema } from "./schema.js";

// BOSH's other keys (releases, stemcells, update, jobs, vm_type, networks, ...) are let be.
const manifestSchema = z.looseObject({
  name: nameSchema,
  instance_groups: z
    .array(
      z.looseObject({
        name: nameSchema,
        instances: z.int().min(0),
        azs: z.array(nameSchema).min(1, "give at least one az"),
      }),
    )
    .nullish(),
});

export interface Manifest {
  readonly name: string;
  readonly groups: readonly InstanceGroup[];
}

export interface ManifestLimits extends TextLimits {
  readonly instances: number;
}

/** A deployment manifest in BOSH's format. */
export function parseManifest(text: string, limits: ManifestLimits): Manifest {
  const parsed = parseYaml(text, manifestSchema, limits);
  const groups = (parsed.instance_groups ?? []).map((group) => ({
    name: group.name,
    instances: group.instances,
    azs: group.azs,
  }));
  for (const [index, group] of groups.entries()) {
    if (groups.findIndex((other) => other.name === group.name) !== index) {
      throw new InvalidArgumentError(`the ${limits.what} has two instance groups named \`${group.name}\``);
    }
    const twice = group.azs.find((az, azIndex) => group.azs.indexOf(az) !== azIndex);
    if (twice !== undefined) {
      throw new InvalidArgumentError(
        `the ${limits.what} names az \`${twice}\` twice in instance group \`${group.name}\``,
      );
    }
  }
  const instances = groups.reduce((sum, group) => sum + group.instances, 0);
  if (instances > limits.instances) {
    throw new InvalidArgumentError(
      `the ${limits.what} wants ${instances} instances: the limit is ${limits.instances} (content.instancesPerDeployment)`,
    );
  }
  return { name: parsed.name, groups };
}
