import { canariesOf, maxInFlightOf, type UpdateBlock } from "../specs/update-block.js";
import type { Instance } from "../store/instance.js";

/** Members that are updated before the next wave. */
export interface Wave<Member> {
  readonly members: readonly Member[];
  /** Maximum number of concurrent updates. */
  readonly atOnce: number;
  readonly isCanary: boolean;
}

/**
 * Returns the update order of a group's members: one az after the other, in order of first appearance. In the first az,
 * canaries come first. Numbers and percentages apply to the members of one az, as in BOSH.
 */
export function wavesOf<Member extends { readonly az: string }>(
  update: Pick<UpdateBlock, "canaries" | "maxInFlight">,
  members: readonly Member[],
): Wave<Member>[] {
  const byAz = new Map<string, Member[]>();
  for (const member of members) {
    const ofAz = byAz.get(member.az);
    if (ofAz === undefined) byAz.set(member.az, [member]);
    else ofAz.push(member);
  }
  const waves: Wave<Member>[] = [];
  for (const ofAz of byAz.values()) {
    const atOnce = maxInFlightOf(update, ofAz.length);
    const canaries = waves.length === 0 ? canariesOf(update, ofAz.length) : 0;
    waves.push({ members: ofAz.slice(0, canaries), atOnce, isCanary: true });
    waves.push({ members: ofAz.slice(canaries), atOnce, isCanary: false });
  }
  return waves.filter((wave) => wave.members.length > 0);
}

/**
 * Splits groups into sequential parts, in order. Adjacent non-serial groups share a part; each serial group has its own
 * part.
 */
export function partsOf<Group extends { readonly update: Pick<UpdateBlock, "serial"> }>(
  groups: readonly Group[],
): Group[][] {
  const parts: Group[][] = [];
  for (const group of groups) {
    const last = parts.at(-1);
    if (last !== undefined && !group.update.serial && last.every(({ update }) => !update.serial)) last.push(group);
    else parts.push([group]);
  }
  return parts;
}

/**
 * Returns the instances grouped into units that must be updated together: an instance that needs an address and the
 * instance whose VM still has the address. Units are ordered by their first instance.
 */
export function unitsOf(
  instances: readonly Instance[],
  holderOf: (instance: Instance) => Instance | undefined,
): Instance[][] {
  const unitOf = new Map<string, Instance[]>();
  const unitWith = (instance: Instance): Instance[] => {
    const unit = unitOf.get(instance.instanceId) ?? [instance];
    unitOf.set(instance.instanceId, unit);
    return unit;
  };
  const left = [...instances];
  const seen = new Set(left.map(({ instanceId }) => instanceId));
  for (let instance = left.shift(); instance !== undefined; instance = left.shift()) {
    const unit = unitWith(instance);
    const holder = holderOf(instance);
    if (holder === undefined) continue;
    // A holder that is not among `instances` joins the unit, and is checked for a holder of its own address.
    if (!seen.has(holder.instanceId)) left.push(holder);
    seen.add(holder.instanceId);
    const other = unitWith(holder);
    if (other === unit) continue;
    unit.push(...other);
    for (const member of other) unitOf.set(member.instanceId, unit);
  }
  return [...new Set(unitOf.values())];
}
