import { loadavg, uptime } from "node:os";
import type { AgentMethod } from "@diskmesh/mbus";
import type { DynamicDisks } from "./dynamic-disks.js";

/** The methods of the BOSH agent protocol that this agent has, besides those built into the protocol. */
export function agentMethods(options: { hostId: string; dynamicDisks: DynamicDisks }): Record<string, AgentMethod> {
  const { hostId, dynamicDisks } = options;
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
    // Lists persistent disks that are mounted; this agent mounts none.
    list_disk: { mode: "async", minArguments: 0, run: async () => [] },
    add_dynamic_disk: {
      mode: "async",
      minArguments: 2,
      run: async ([diskCid, hint]) => {
        await dynamicDisks.add(diskCid, hint);
        return {};
      },
    },
    remove_dynamic_disk: {
      mode: "sync",
      minArguments: 1,
      run: async ([diskCid]) => {
        await dynamicDisks.remove(diskCid);
        return {};
      },
    },
  };
}

/** What the health monitor is told. */
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
