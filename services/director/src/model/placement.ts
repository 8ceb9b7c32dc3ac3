import { type Instance, newInstance } from "./instance.js";
import type { JsonObject } from "./json.js";
import type { GroupNetwork } from "./networks.js";
import type { VmNeeds } from "./vm-spec.js";

/** An instance group as its manifest wants it. */
export interface InstanceGroup {
  readonly name: string;
  readonly instances: number;
  /** At least one, each once. */
  readonly azs: readonly string[];
}

/** With what its VMs and disks shall be. */
export interface GroupSpec extends InstanceGroup, VmNeeds {
  /** Alias of one of the manifest's stemcells; empty for none. */
  readonly stemcell: string;
  readonly networks: readonly GroupNetwork[];
  readonly env: JsonObject;
  /** By size or by disk type. */
  readonly persistentDisk?: { readonly sizeMib: number; readonly type: string };
}

export interface Placement {
  /** New instances, without VMs. */
  readonly added: readonly Instance[];
  /** Existing ones that have no place any more. */
  readonly leaving: readonly Instance[];
}

/**
 * Instances stay where they are as long as their group still wants that many and still has their az; the highest
 * indexes leave first. New ones go one by one to the az of the group with the fewest, the first of these in the
 * manifest's order, and take the lowest free index.
 */
export function placeInstances(
  deployment: string,
  groups: readonly InstanceGroup[],
  existing: readonly Instance[],
  newId: () => string,
): Placement {
  const added: Instance[] = [];
  const staying = new Set<string>();
  for (const group of groups) {
    const kept = existing
      .filter((instance) => instance.group === group.name && !instance.leaving && group.azs.includes(instance.az))
      .sort((a, b) => a.index - b.index)
      .slice(0, group.instances);
    for (const instance of kept) staying.add(instance.instanceId);
    added.push(...fillGroup(deployment, group, kept, newId));
  }
  return { added, leaving: existing.filter((instance) => !instance.leaving && !staying.has(instance.instanceId)) };
}

function fillGroup(
  deployment: string,
  group: InstanceGroup,
  kept: readonly Instance[],
  newId: () => string,
): Instance[] {
  const indexes = new Set(kept.map((instance) => instance.index));
  const perAz = new Map(group.azs.map((az) => [az, kept.filter((instance) => instance.az === az).length]));
  const added: Instance[] = [];
  for (let index = 0; indexes.size < group.instances; index++) {
    if (indexes.has(index)) continue;
    indexes.add(index);
    const [az, count] = [...perAz].reduce((least, each) => (each[1] < least[1] ? each : least));
    perAz.set(az, count + 1);
    added.push(newInstance({ instanceId: newId(), deployment, group: group.name, index, az }));
  }
  return added;
}
