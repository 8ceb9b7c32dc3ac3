import { InvalidStateError } from "@diskmesh/domain";
import { currentCpi } from "../specs/cpi-choice.js";
import type { DirectorTables } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { CpiJobContext } from "./context.js";
import { allCpis, cpisOfStep } from "./cpi-target.js";
import { deleteObject, deleteUnknownObject, type UnknownObject } from "./delete-object.js";
import { holderAt } from "./given-cids.js";
import { type DeletableOrphan, deletableOrphans } from "./possible-orphan.js";

/** Returns true for the default CPI and for a CPI that is still in the cpi-config. */
export function knowsCpi(context: Pick<CpiJobContext, "configs">, tables: DirectorTables, cpi: string): boolean {
  return cpi === "" || currentCpi(cpi, context.configs.cpi.current(tables)) !== undefined;
}

/** Returns the CPIs that the deletion of an object may call first. */
export function cpisOfDeletion(
  context: Pick<CpiJobContext, "configs">,
  tables: DirectorTables,
  cpi: string,
): { readonly cpis: readonly string[] } {
  return knowsCpi(context, tables, cpi) ? cpisOfStep(context, tables, cpi) : { cpis: allCpis(context, tables) };
}

/**
 * Deletes the object of a possible orphan, then its entry. Returns false when no CPI had the object. Throws, and keeps
 * the entry, when that is not known or when another record has the object.
 */
export async function deleteOrphan(context: CpiJobContext, run: TaskRun, orphan: DeletableOrphan): Promise<boolean> {
  const { kind, cid, cpi, token } = orphan;
  const { holder, isCpiKnown } = await context.tablet.read((tables) => ({
    holder: holderAt(context, tables, orphan),
    isCpiKnown: knowsCpi(context, tables, cpi),
  }));
  const forget = `\`diskmesh forget-orphan ${token}\``;
  if (holder !== undefined)
    throw new InvalidStateError(
      `${kind} \`${cid}\` belongs to ${holder.shown} in deployment \`${holder.deployment}\` and is no orphan: ${forget} removes it from the list`,
    );
  const { isFound, mayExist } = isCpiKnown
    ? await deleteObject(context, run, orphan)
    : { isFound: await deleteUnknownObject(context, run, orphan), mayExist: undefined };
  if (mayExist !== undefined)
    throw new InvalidStateError(
      `${mayExist}; mend these CPIs and repeat the deletion, or delete the ${kind} in the infrastructure, then ${forget}`,
    );
  if (!isFound && !isCpiKnown)
    throw new InvalidStateError(
      `CPI \`${cpi}\` of ${kind} \`${cid}\` is not in the cpi-config any more, and no other CPI has the ${kind}: put the CPI back, or delete the ${kind} in the infrastructure, then ${forget}`,
    );
  await context.tablet.transact((tx) => tx.possibleOrphans.delete(token));
  return isFound;
}

/**
 * Deletes an object that has no record but may be a possible orphan. Returns false when no CPI had it.
 */
export async function deleteUnrecorded(context: CpiJobContext, run: TaskRun, object: UnknownObject): Promise<boolean> {
  const orphans = await context.tablet.read((tables) => deletableOrphans(tables.possibleOrphans.entries(), object));
  if (orphans.length === 0) return deleteUnknownObject(context, run, object);
  let isFound = false;
  for (const orphan of orphans) if (await deleteOrphan(context, run, orphan)) isFound = true;
  return isFound;
}
