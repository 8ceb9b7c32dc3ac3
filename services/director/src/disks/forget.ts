import { DomainError, UnavailableError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import type { Asker } from "../agents/agent-calls.js";
import { owedRemovalKey } from "../store/owed-removal.js";
import type { DirectorTables, DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { DiskJobContext } from "./context.js";

/**
 * Has an agent remove disks for good. Agents run removals before queued requests, so a queued add could create the link
 * again. The function first waits for a request queued after every earlier add, and then removes the disks.
 */
export async function forgetForGood(
  context: DiskJobContext,
  run: Asker,
  agentId: string,
  diskCids: Iterable<string>,
  timeoutMs: number,
): Promise<void> {
  const endAtMs = context.clock.monotonicMs() + timeoutMs;
  const notify = (method: string, args: readonly unknown[]) =>
    context.agents.notify(run, agentId, method, args, Math.max(1, endAtMs - context.clock.monotonicMs()));
  try {
    // All agents queue list_disk, which changes nothing.
    await notify("list_disk", []);
  } catch (error) {
    // An error of the agent also shows that the request has ended.
    if (!(error instanceof AgentError)) throw error;
  }
  for (const diskCid of diskCids) await notify("remove_dynamic_disk", [diskCid]);
}

/**
 * Settles an agent's pending detach notifications: has the agent remove the disks. Needs the lock of the instance.
 * Returns the names of the disks.
 */
export async function settleOwedRemovals(
  context: DiskJobContext,
  run: TaskRun,
  agentId: string,
  { exceptCid = "", timeoutMs }: { readonly exceptCid?: string; readonly timeoutMs: number },
): Promise<readonly string[]> {
  const owed = await context.tablet.read((tables) =>
    [...tables.owedRemovals.by("byAgent", agentId)].filter(({ diskCid }) => diskCid !== exceptCid),
  );
  const names = [...new Set(owed.map(({ diskName }) => diskName))];
  const diskCids = new Set(owed.map(({ diskCid }) => diskCid));
  if (owed.length === 0) return names;
  await run.stage("Telling agent", `${agentId} to forget ${names.join(", ")}`, async () => {
    await forgetForGood(context, run, agentId, diskCids, timeoutMs);
    await context.tablet.transact((tx) => {
      for (const diskCid of diskCids) forgetOwedRemovals(tx, agentId, diskCid);
    });
  });
  return names;
}

/**
 * Settles the pending detach notifications of the VM's agent before an attach. The infrastructure may reuse the device
 * path of a detached disk, and a stale link would then lead to the new disk. A stale link for the disk itself is
 * harmless. Throws UnavailableError when the agent cannot be notified.
 */
export async function settleBeforeAttach(
  context: DiskJobContext,
  run: TaskRun,
  { agentId, vmCid }: { readonly agentId: string; readonly vmCid: string },
  diskCid: string,
): Promise<void> {
  const { attachTimeoutMs: timeoutMs } = context.limits.agents;
  try {
    await settleOwedRemovals(context, run, agentId, { exceptCid: diskCid, timeoutMs });
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    throw new UnavailableError(
      `disk \`${diskCid}\` was not attached to \`${vmCid}\`: the vm's agent may still have links of detached disks (ListOwedRemovals), which could point to this disk, and cannot be told to remove them: ${error.message}; check that the agent runs, then repeat the request`,
      { cause: error, about: { agent_id: agentId, disk_cid: diskCid } },
    );
  }
}

/** Returns true when a pending detach notification must be settled before the VM gets the disk. */
export function owesBeforeAttach(tables: DirectorTables, agentId: string, diskCid: string): boolean {
  for (const owed of tables.owedRemovals.by("byAgent", agentId)) if (owed.diskCid !== diskCid) return true;
  return false;
}

/** Deletes the agent's pending detach notifications for one disk or all disks. */
export function forgetOwedRemovals(tx: DirectorTransaction, agentId: string, diskCid?: string): void {
  for (const owed of tx.owedRemovals.by("byAgent", agentId))
    if (diskCid === undefined || owed.diskCid === diskCid) tx.owedRemovals.delete(owedRemovalKey(owed));
}
