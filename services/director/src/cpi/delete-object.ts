import { isDenial } from "@diskmesh/cpi";
import type { PossibleOrphan } from "../store/possible-orphan.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { CpiJobContext } from "./context.js";
import type { CpiTarget } from "./cpi-calls.js";
import { tolerate } from "./cpi-error.js";
import { recorded } from "./cpi-target.js";
import { cpisOfOthers } from "./given-cids.js";
import { LISTED_BY } from "./possible-orphan.js";

/** An object that a CPI is to delete. */
export interface UnknownObject extends Pick<PossibleOrphan, "kind"> {
  readonly cid: string;
}

/** An object with the CPI that is recorded for it. */
export interface KnownObject extends UnknownObject, Pick<PossibleOrphan, "cpi" | "az"> {
  readonly stemcellApiVersion?: number;
}

/** The end of a deletion. Other ends are errors, after which the object stays recorded. */
export interface Deletion {
  /** False when no CPI had the object. */
  readonly isFound: boolean;
  /** Reason why the object may still exist at another CPI than the recorded one; undefined when it does not. */
  readonly mayExist: string | undefined;
}

/**
 * Deletes an object with its recorded CPI. The other CPIs are searched when that CPI does not have the object. If
 * `mayExist` is set, a caller that deletes the record has to record a possible orphan in the same transaction.
 */
export async function deleteObject(context: CpiJobContext, run: TaskRun, object: KnownObject): Promise<Deletion> {
  const exceptCpis = await context.tablet.read((tables) => cpisOfOthers(context, tables, object));
  let mayExist: string | undefined;
  const deleting = hasDeleted(context, run, object, { ...recorded(object), askOthers: true, exceptCpis });
  const isFound = await tolerate(deleting, (error) => {
    if (error.isOf("POSSIBLY_ELSEWHERE")) mayExist = error.message;
    return mayExist !== undefined;
  });
  if (mayExist !== undefined) {
    const message = `${mayExist}: see ${LISTED_BY[object.kind]}`;
    run.event({ stage: "Possibly orphaned", task: `${object.kind} ${object.cid}`, state: "failed", message });
  }
  return { isFound: isFound ?? false, mayExist };
}

/**
 * Deletes an object with the CPI that has it, because no usable CPI is recorded for the object. Returns false when no
 * CPI has it.
 */
export async function deleteUnknownObject(
  context: CpiJobContext,
  run: TaskRun,
  object: UnknownObject & { readonly cpi?: string },
): Promise<boolean> {
  const exceptCpis = await context.tablet.read((tables) => cpisOfOthers(context, tables, object));
  return hasDeleted(context, run, object, { cpi: "", unknownId: true, exceptCpis });
}

/** Returns false when no CPI has the object. */
async function hasDeleted(
  { cpi }: CpiJobContext,
  run: TaskRun,
  { kind, cid }: UnknownObject,
  target: CpiTarget,
): Promise<boolean> {
  const calls = {
    vm: () => cpi.call("deleteVm", target, { vmCid: cid }, run),
    disk: () => cpi.call("deleteDisk", target, { diskCid: cid }, run),
    snapshot: () => cpi.call("deleteSnapshot", target, { snapshotCid: cid }, run),
  };
  return (await tolerate<object>(calls[kind](), ({ cause }) => isDenial(kind, cause))) !== undefined;
}
