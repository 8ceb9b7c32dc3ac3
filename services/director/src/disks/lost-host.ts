import type { DiskRecord } from "../store/disk.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { DiskJobContext } from "./context.js";

/**
 * Returns true when a registry reports that the disk is fenced from the VM's host, or that the host is DEAD or
 * UNAVAILABLE. Nobody waits longer for the agent of such a host before a detach: a registry hears the agent every few
 * seconds and has not, and the agent would only remove a link, because agents of a registry's hosts mount nothing. The
 * CPI's detach is then the fence, which needs no word of the host.
 */
export async function isHostLost(
  { registries, limits }: DiskJobContext,
  run: TaskRun,
  agentId: string,
  { vmCid, diskCid }: Pick<DiskRecord, "vmCid" | "diskCid">,
): Promise<boolean> {
  const options = { signal: run.stopped, deadlineMs: limits.agents.detachGraceMs };
  const why = await registries.whyLost(vmCid, diskCid, options);
  run.checkpoint();
  if (why !== undefined) run.note("Skipping agent", `${agentId}: ${why}`);
  return why !== undefined;
}
