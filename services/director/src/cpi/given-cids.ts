import { InvalidStateError } from "@diskmesh/domain";
import { sameCpi } from "../specs/cpi-choice.js";
import { formatInstance } from "../store/instance.js";
import type { PossibleOrphan } from "../store/possible-orphan.js";
import type { DirectorTables } from "../store/schema.js";
import type { CpiJobContext } from "./context.js";

/** An object that a CPI reports to have created. */
export interface Given extends Pick<PossibleOrphan, "kind"> {
  readonly cpi: string;
  readonly cid: string;
}

/** A CPI returned the same CID for two objects. */
export class CidGivenTwiceError extends InvalidStateError {}

/**
 * Throws CidGivenTwiceError when another object of the same CPI has the CID, because deleting one object would delete
 * the other.
 */
export function refuseGivenTwice(
  { configs }: Pick<CpiJobContext, "configs">,
  tables: DirectorTables,
  { kind, cpi, cid }: Given,
): void {
  const holder = holderAt({ configs }, tables, { kind, cpi, cid });
  if (holder === undefined) return;
  const from = cpi === "" ? "the default CPI" : `CPI \`${cpi}\``;
  throw new CidGivenTwiceError(
    `${from} returned the ${kind} CID \`${cid}\`, which already belongs to ${holder.shown} in deployment \`${holder.deployment}\`: nothing was deleted; check what the CPI created, repair the CPI, then repeat the request`,
    { about: { [`${kind}_cid`]: cid, cpi } },
  );
}

/** Returns the recorded object with the CID that the CPI has; undefined for none. */
export function holderAt(
  { configs }: Pick<CpiJobContext, "configs">,
  tables: DirectorTables,
  { kind, cpi, cid }: Given,
): Holder | undefined {
  const names = configs.cpi.current(tables);
  return holdersOf(tables, kind, cid).find((each) => sameCpi(each.cpi, cpi, names));
}

/**
 * Returns the CPIs of other recorded objects with the CID. These CPIs must not be searched for the object, because they
 * would delete the other one. Without `cpi` all recorded objects are others.
 */
export function cpisOfOthers(
  { configs }: Pick<CpiJobContext, "configs">,
  tables: DirectorTables,
  { kind, cid, cpi }: Pick<Given, "kind" | "cid"> & { readonly cpi?: string },
): readonly string[] {
  const names = configs.cpi.current(tables);
  const cpis = holdersOf(tables, kind, cid).map((each) => each.cpi);
  return [...new Set(cpis)].filter((each) => cpi === undefined || !sameCpi(each, cpi, names));
}

interface Holder {
  readonly cpi: string;
  readonly deployment: string;
  readonly shown: string;
}

/** Returns the objects with the CID, of any CPI, because two infrastructures may use the same CID. */
function holdersOf(tables: DirectorTables, kind: Given["kind"], cid: string): Holder[] {
  const { instances, disks, persistentDisks, snapshots } = tables;
  if (kind === "vm")
    return [...instances.by("byVmCid", cid)].map((one) => ({ ...one, shown: `the vm of ${formatInstance(one)}` }));
  if (kind === "snapshot")
    return [...snapshots.by("byCid", cid)].map((one) => ({ ...one, shown: `a snapshot of disk \`${one.diskCid}\`` }));
  return [
    ...[...disks.by("byCid", cid)].map((one) => ({ ...one, shown: `dynamic disk \`${one.name}\`` })),
    ...[...persistentDisks.by("byCid", cid)].map((one) => ({ ...one, shown: `a disk of ${formatInstance(one)}` })),
  ];
}
