import { parseCid } from "@diskmesh/cpi";
import { messageOf } from "@diskmesh/domain";
import type { PossibleOrphan } from "../store/possible-orphan.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { CpiJobContext } from "./context.js";
import type { CpiTarget, RepeatOptions } from "./cpi-calls.js";
import { CpiCallError } from "./cpi-error.js";
import { CidGivenTwiceError, type Given, refuseGivenTwice } from "./given-cids.js";
import { LISTED_BY, surplusOrphans } from "./possible-orphan.js";

/** The parts of the CPI's `info` that jobs need. */
export interface CpiFacts {
  readonly apiVersion: number;
  readonly findsByToken: boolean;
  readonly needsVmSpec: boolean;
}

export async function cpiFacts(context: CpiJobContext, run: TaskRun, target: CpiTarget): Promise<CpiFacts> {
  try {
    return await context.cpi.call("info", target, {}, run);
  } catch (error) {
    // Old CPIs lack the `info` method.
    if (error instanceof CpiCallError && error.isNotImplemented)
      return { apiVersion: 1, findsByToken: false, needsVmSpec: true };
    throw error;
  }
}

export interface Making extends Pick<PossibleOrphan, "token" | "kind" | "cpi" | "az" | "deployment" | "madeFor"> {
  readonly findsByToken: boolean;
  /** True when an earlier attempt recorded the intent. Its progress is unknown. */
  readonly begunBefore: boolean;
  /** Removes the intent. */
  readonly drop: (tx: DirectorTransaction) => void;
}

/**
 * Calls the CPI method that creates a VM or a disk. Returns undefined when an earlier attempt may have created the
 * object and the CPI cannot find objects by token. The object is then recorded as a possible orphan and the intent is
 * removed, so that the next step starts over or finds nothing to delete.
 */
export async function makeOnce<Made>(
  context: CpiJobContext,
  run: TaskRun,
  making: Making,
  call: (options: RepeatOptions) => Promise<Made>,
): Promise<Made | undefined> {
  const { findsByToken, begunBefore, drop } = making;
  if (begunBefore && !findsByToken) {
    await giveUp(context, run, making, "an earlier attempt was interrupted during the call");
    return undefined;
  }
  try {
    return await call({ repeatUnknown: findsByToken });
  } catch (error) {
    if (!(error instanceof CpiCallError)) throw error;
    // With `begunBefore` the CPI finds objects by token. Its refusal then shows that no earlier call made the object,
    // because the CPI would have returned that object.
    const madeNothing = error.refused || (error.outcome === "not_done" && !begunBefore);
    if (madeNothing) await context.tablet.transact(drop);
    else if (!findsByToken) await giveUp(context, run, making, messageOf(error));
    throw error;
  }
}

/**
 * Records an object that a CPI created. When the CPI returned a CID that is already in use, removes the intent, deletes
 * nothing, and records a possible orphan. Throws CidGivenTwiceError in this case.
 */
export async function recordMade(
  context: CpiJobContext,
  run: TaskRun,
  making: Making,
  { cpi, cid }: Pick<Given, "cpi" | "cid">,
  record: (tx: DirectorTransaction) => void,
): Promise<void> {
  const given = { kind: making.kind, cpi, cid: parseCid(making.kind, cid) };
  try {
    await context.tablet.transact((tx) => {
      refuseGivenTwice(context, tx, given);
      record(tx);
    });
  } catch (error) {
    if (error instanceof CidGivenTwiceError) await giveUp(context, run, making, messageOf(error));
    throw error;
  }
}

async function giveUp(context: CpiJobContext, run: TaskRun, making: Making, reason: string): Promise<void> {
  const { token, kind, cpi, az, deployment, madeFor, drop } = making;
  const message = `the CPI may have created an orphaned ${kind} (${reason}): see ${LISTED_BY[kind]}`;
  run.event({ stage: "Possibly orphaned", task: `${kind} ${token}`, state: "failed", message });
  await context.tablet.transact((tx) => {
    putPossibleOrphan(context, run, tx, { token, kind, cpi, az, deployment, madeFor, reason });
    drop(tx);
  });
}

/** Records an object that may exist without any other record. Call in a transaction. */
export function putPossibleOrphan(
  { clock, limits }: CpiJobContext,
  { taskId }: TaskRun,
  tx: DirectorTransaction,
  orphan: Omit<PossibleOrphan, "taskId" | "sinceMs">,
): void {
  tx.possibleOrphans.put({ ...orphan, taskId, sinceMs: clock.nowMs() });
  for (const old of surplusOrphans(tx.possibleOrphans.entries(), limits.maxPossibleOrphans))
    tx.possibleOrphans.delete(old.token);
}
