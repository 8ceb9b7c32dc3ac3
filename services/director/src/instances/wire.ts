import {
  type AgentHealth,
  InstanceState,
  JobsState,
  VmState,
  type Instance as WireInstance,
} from "@diskmesh/api/director";
import { UNRESPONSIVE } from "../agents/agent-health.js";
import type { ShownHealth } from "../agents/agent-healths.js";
import type { Instance } from "../store/instance.js";
import { ipsOf } from "./bosh-instance.js";

export function encodeInstance(instance: Instance, shown: ShownHealth | undefined): WireInstance {
  const { instanceId, deployment, group, index, az, vmCid, agentId, cpi } = instance;
  const { vmState, state = "started", jobs = "started" } = instance;
  const { stemcell, stemcellApiVersion, cpiApiVersion, usesRegistry } = instance;
  const vm = {
    stemcell,
    stemcellApiVersion,
    cpiApiVersion,
    usesRegistry,
    networks: { ...instance.networks },
    ips: ipsOf(instance),
    vmState: VmState[vmState.toUpperCase() as Uppercase<typeof vmState>],
    state: InstanceState[state.toUpperCase() as Uppercase<typeof state>],
    jobsState: JobsState[jobs.toUpperCase() as Uppercase<typeof jobs>],
    ignore: instance.ignore ?? false,
    agentHealth: shown && encodeAgentHealth(shown),
  };
  return { instanceId, deployment, group, index, az, vmCid, agentId, cpi, ...vm };
}

function encodeAgentHealth({ health, isResponsive }: ShownHealth): AgentHealth {
  return {
    jobState: isResponsive ? (health?.jobState ?? "") : UNRESPONSIVE,
    lastHeartbeatTime: health && new Date(health.heardAtMs),
    vitals: { ...health?.vitals },
  };
}

/** Returns the time when the instance's VM was made, in BOSH's format; null when there is none or it is unknown. */
export function vmCreatedAt({ vmCreatedAtMs }: Pick<Instance, "vmCreatedAtMs">): string | null {
  return vmCreatedAtMs === undefined ? null : `${new Date(vmCreatedAtMs).toISOString().slice(0, 19)}Z`;
}
