import { DomainError, messageOf, NotImplementedError } from "@diskmesh/domain";
import type { CpiTarget, RepeatOptions } from "../cpi/cpi-calls.js";
import { CpiCallError } from "../cpi/cpi-error.js";
import { type PossibleOrphan, surplusOrphans } from "../model/possible-orphan.js";
import type { TaskRun } from "../workers/task-run.js";
import type { JobContext } from "./job.js";

/** What the CPI of a target says of itself, as far as jobs care. */
export interface CpiFacts {
  readonly apiVersion: number;
  readonly findsByToken: boolean;
}

export async function cpiFacts(context: JobContext, run: TaskRun, target: CpiTarget): Promise<CpiFacts> {
  try {
    return await context.cpi.call("info", target, {}, run);
  } catch (error) {
    // CPIs of old know no info.
    if (error instanceof CpiCallError && error.cause instanceof NotImplementedError)
      return { apiVersion: 1, findsByToken: false };
    throw error;
  }
}

export interface Making extends Pick<PossibleOrphan, "token" | "kind" | "cpi" | "az" | "deployment" | "madeFor"> {
  readonly findsByToken: boolean;
  /** The intent was recorded by an earlier attempt, of which nobody knows how far it got. */
  readonly begunBefore: boolean;
  /** It is found in order to be deleted. */
  readonly toDelete: boolean;
}

/** Calls what makes a VM or a disk. Where that might make two of them, what may be left over is recorded. */
export async function makeOnce<Made>(
  context: JobContext,
  run: TaskRun,
  making: Making,
  call: (options: RepeatOptions) => Promise<Made>,
): Promise<Made> {
  const { findsByToken, begunBefore, toDelete, kind } = making;
  if (findsByToken) return call({});
  if (begunBefore)
    await recordPossibleOrphan(context, run, making, "an earlier attempt ended in the middle of the call");
  if (toDelete)
    throw new NotFoundByTokenError(`the CPI cannot say whether there is such a ${kind}, and it is given up`);
  try {
    return await call({ repeatUnknown: false });
  } catch (error) {
    const unknown = error instanceof CpiCallError && error.outcome === "unknown";
    if (unknown) await recordPossibleOrphan(context, run, making, messageOf(error));
    throw error;
  }
}

/** What an earlier attempt may have made cannot be found, and to make another only to delete it would be of no use. */
class NotFoundByTokenError extends DomainError {
  override readonly name = "NotFoundByTokenError";
}

/** Whether the intent can be dropped: no attempt has made anything, or what one may have made is recorded. */
export function madeNothing(error: unknown, { begunBefore }: Pick<Making, "begunBefore">): boolean {
  return isGivenUp(error) || (error instanceof CpiCallError && error.outcome === "not_done" && !begunBefore);
}

/** There is nothing to delete, as far as anybody can know. */
export function isGivenUp(error: unknown): boolean {
  // A CPI that knows tokens would have found what an earlier call had made.
  return error instanceof NotFoundByTokenError || (error instanceof CpiCallError && error.refused);
}

async function recordPossibleOrphan(context: JobContext, run: TaskRun, making: Making, reason: string): Promise<void> {
  const { token, kind, cpi, az, deployment, madeFor } = making;
  const message = `the CPI may have made a ${kind} that nobody knows of (${reason}): see ListPossibleOrphans`;
  run.event({ stage: "Possibly orphaned", task: `${kind} ${token}`, state: "failed", message });
  const sinceMs = context.clock.nowMs();
  await context.tablet.transact((tx) => {
    // The first reason says most, and later attempts have the same token.
    if (tx.possibleOrphans.has(token)) return;
    tx.possibleOrphans.put({ token, kind, cpi, az, deployment, madeFor, taskId: run.taskId, reason, sinceMs });
    for (const old of surplusOrphans(tx.possibleOrphans.entries(), context.config.content.possibleOrphans))
      tx.possibleOrphans.delete(old.token);
  });
}
