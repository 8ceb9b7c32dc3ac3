import { InvalidStateError } from "@diskmesh/domain";
import { movedTo, newInstance } from "../instances/instance.js";
import type { FormerGroup, InstanceGroup } from "../specs/instance-group.js";
import { formatInstance, type Instance } from "../store/instance.js";

export interface Placement {
  /** New instances, without VMs. */
  readonly added: readonly Instance[];
  /** Existing instances of another group, with their new group and az. */
  readonly migrated: readonly Instance[];
  /** Existing instances without a place in the manifest. */
  readonly leaving: readonly Instance[];
}

/**
 * Places the instances of the groups. Instances stay while their group has enough places and still has their az. The
 * highest indexes leave first; ignored instances must not leave. New instances take the lowest free index and go to the
 * az with the fewest instances; on a tie, to the first az in the manifest's order. Static addresses determine the az of
 * an instance. Existing instances are never moved to another az, because their disks cannot follow.
 */
export function placeInstances(
  deployment: string,
  groups: readonly InstanceGroup[],
  existing: readonly Instance[],
  newId: () => string,
): Placement {
  const added: Instance[] = [];
  const migrated: Instance[] = [];
  const staying = new Set<string>();
  for (const group of groups) {
    const own = existing.filter((instance) => instance.group === group.name && isPlaced(group, instance));
    const kept = own.sort(ignoredFirst).slice(0, group.instances);
    const come = migrate(group, existing, kept);
    migrated.push(...come);
    kept.push(...come);
    for (const instance of kept) {
      refuseElsewhere(group, instance);
      staying.add(instance.instanceId);
    }
    added.push(...fillGroup(deployment, group, kept, newId));
  }
  const leaving = existing.filter((instance) => !instance.leaving && !staying.has(instance.instanceId));
  for (const instance of leaving) if (instance.ignore) throw leavesIgnored(instance);
  return { added, migrated, leaving };
}

function leavesIgnored(instance: Instance): Error {
  const name = formatInstance(instance);
  return new InvalidStateError(
    `the manifest has no place for ${name}, which is ignored and must not be deleted: keep its group, its AZ and enough instances, or unignore the instance first`,
    { reason: "INSTANCE_IGNORED", about: { instance_id: instance.instanceId } },
  );
}

function isPlaced(group: InstanceGroup, { leaving, az }: Instance): boolean {
  return !leaving && group.azs.includes(az);
}

function byIndex(a: Instance, b: Instance): number {
  return a.index - b.index;
}

function ignoredFirst(a: Instance, b: Instance): number {
  return Number(b.ignore ?? false) - Number(a.ignore ?? false) || byIndex(a, b);
}

/**
 * Moves instances of former groups, with their disks, into the free places of a group. An index that is in use is
 * replaced by the lowest free index.
 */
function migrate(group: InstanceGroup, existing: readonly Instance[], kept: readonly Instance[]): Instance[] {
  const indexes = new Set(kept.map(({ index }) => index));
  const come: Instance[] = [];
  for (const former of group.migratedFrom ?? []) {
    if (former.name === group.name) continue;
    const theirs = existing.filter((instance) => instance.group === former.name && !instance.leaving).sort(byIndex);
    for (const instance of theirs) {
      const az = azAfter(group, former, instance);
      if (!group.azs.includes(az) || kept.length + come.length >= group.instances) continue;
      let index = indexes.has(instance.index) ? 0 : instance.index;
      while (indexes.has(index)) index++;
      indexes.add(index);
      come.push(movedTo(group.name, index, az, instance));
    }
  }
  return come;
}

function azAfter(group: InstanceGroup, former: FormerGroup, { az, instanceId }: Instance): string {
  const place = `${former.name}/${instanceId} cannot migrate to instance group \`${group.name}\``;
  const about = { about: { instance_id: instanceId } };
  if (az === "" && former.az === "" && !group.azs.includes(""))
    throw new InvalidStateError(`${place}: the instance is in no AZ; set \`az\` in migrated_from`, about);
  if (az !== "" && former.az !== "" && az !== former.az)
    throw new InvalidStateError(
      `${place}: the instance is in AZ \`${az}\`, but migrated_from says \`${former.az}\``,
      about,
    );
  return az === "" ? former.az : az;
}

function refuseElsewhere({ name, azsByIndex }: InstanceGroup, { index, az, instanceId }: Instance): void {
  if (azsByIndex === undefined || azsByIndex[index]?.includes(az)) return;
  const where = azsByIndex[index]?.map((each) => `\`${each}\``).join(", ");
  throw new InvalidStateError(
    `${name}/${instanceId} has index ${index} and is in AZ \`${az}\`, but its static_ips ${where === undefined ? "have no address for that index" : `have an address in AZ ${where} for that index`}: list an address of AZ \`${az}\` at that index, or scale the group in first`,
    { about: { instance_id: instanceId } },
  );
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
    const here = group.azsByIndex?.[index] ?? group.azs;
    const [az, count] = [...perAz]
      .filter(([name]) => here.includes(name))
      .reduce((least, each) => (each[1] < least[1] ? each : least));
    perAz.set(az, count + 1);
    added.push(newInstance({ instanceId: newId(), deployment, group: group.name, index, az }));
  }
  return added;
}
