import { loadavg, uptime } from "node:os";
import { NotFoundError } from "@diskmesh/domain";
import type { AgentMethod } from "@diskmesh/mbus";
import type { DiskLinks } from "./disk-links.js";

export interface DirectorFaceParts {
  readonly hostId: string;
  readonly dynamicDisks: DiskLinks;
  readonly persistentDisks: DiskLinks;
}

/** Returns this agent's methods of the BOSH agent protocol, in addition to the built-in ones. */
export function agentMethods({
  hostId,
  dynamicDisks,
  persistentDisks,
}: DirectorFaceParts): Record<string, AgentMethod> {
  return {
    info: { mode: "sync", minArguments: 0, run: async () => ({ api_version: 1 }) },
    get_state: {
      mode: "sync",
      minArguments: 0,
      run: async ([filter]) => ({
        agent_id: hostId,
        job_state: "running",
        processes: [],
        networks: {},
        packages: {},
        resource_pool: {},
        vm: { name: hostId },
        ...(filter === "full" && { vitals: vitals() }),
      }),
    },
    ...persistentDiskMethods(persistentDisks),
    // Extension: stock agents lack this method.
    list_dynamic_disks: { mode: "async", minArguments: 0, run: () => dynamicDisks.list() },
    add_dynamic_disk: change("async", 2, (diskCid, hint) => dynamicDisks.add(diskCid, hint)),
    remove_dynamic_disk: change("sync", 1, (diskCid) => dynamicDisks.remove(diskCid)),
  };
}

/**
 * A persistent disk is served without partitions or file system, and a job opens it by its link. So the link stands for
 * BOSH's mounted state, from add_persistent_disk to remove_persistent_disk.
 */
function persistentDiskMethods(disks: DiskLinks): Record<string, AgentMethod> {
  const check = async (diskCid: unknown): Promise<void> => {
    if (await disks.leadsToDisk(diskCid)) return;
    throw new NotFoundError(`persistent disk ${String(diskCid)} could not be found: call add_persistent_disk first`);
  };
  return {
    list_disk: { mode: "async", minArguments: 0, run: () => disks.list() },
    add_persistent_disk: change("async", 2, (diskCid, hint) => disks.add(diskCid, hint)),
    mount_disk: change("async", 1, check),
    unmount_disk: {
      mode: "async",
      minArguments: 1,
      changes: true,
      run: async ([diskCid]) => {
        await check(diskCid);
        return { message: "the disk is not mounted: remove_persistent_disk removes its link" };
      },
    },
    remove_persistent_disk: change("async", 1, (diskCid) => disks.remove(diskCid)),
  };
}

/** Returns a method that changes something, and answers an empty object. */
function change(
  mode: AgentMethod["mode"],
  minArguments: number,
  work: (diskCid: unknown, hint: unknown) => Promise<void>,
): AgentMethod {
  const run: AgentMethod["run"] = async ([diskCid, hint]) => {
    await work(diskCid, hint);
    return {};
  };
  return { mode, minArguments, changes: true, run };
}

/** Returns the heartbeat for the health monitor. */
export function heartbeat(hostId: string): object {
  return {
    deployment: "",
    job: null,
    index: null,
    job_state: "running",
    vitals: vitals(),
    node_id: hostId,
    number_of_processes: 0,
  };
}

function vitals(): object {
  return { load: loadavg().map((load) => load.toFixed(2)), uptime: { secs: Math.round(uptime()) } };
}
