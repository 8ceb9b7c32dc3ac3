import { InvalidStateError } from "@diskmesh/domain";
import type { GroupSpec } from "../specs/instance-group.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import type { Manifest } from "../yaml/manifest.js";
import type { ReadersOfTexts } from "./readers-of-texts.js";

export function groupOf(manifest: Manifest, instance: Pick<Instance, "group" | "deployment">): GroupSpec {
  const group = manifest.groups.find((each) => each.name === instance.group);
  // Instances without a group are being deleted and get no VMs.
  if (group === undefined)
    throw new InvalidStateError(`deployment \`${instance.deployment}\` has no group \`${instance.group}\``);
  return group;
}

/** Returns the deployment's last deployed manifest. The task must have loaded the manifest with `Manifests.hold`. */
export function manifestOf(
  { configs }: { readonly configs: ReadersOfTexts },
  tables: DirectorTables,
  deployment: string,
): Manifest {
  return configs.manifests.get(tables.deployments.get(deployment)?.manifest ?? "");
}
