import { isJsonObject } from "@diskmesh/domain";
import { UNRESPONSIVE } from "../agents/agent-health.js";
import { readableProcesses, readableVitals } from "../agents/agent-report.js";
import { parseStemcell } from "../specs/stemcell.js";
import type { Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";

/**
 * Maximum length of an instance's line. A longer line omits vitals and processes, because the task log would truncate
 * it and clients cannot parse a truncated line.
 */
const MAX_LINE_LENGTH = 16_000;

/**
 * Returns an instance in the format of BOSH's instance lists, with the state reported by its agent; `agent` is
 * undefined when the agent does not answer. `vmCreatedAt` is null when it is unknown.
 */
export function boshInstance(
  instance: Instance,
  disks: readonly PersistentDisk[],
  agent: Readonly<Record<string, unknown>> | undefined,
  vmCreatedAt: string | null = null,
): object {
  const hasVm = instance.vmCid !== "";
  const cids = disks.map(({ diskCid }) => diskCid).filter(Boolean);
  const line = {
    vm_cid: hasVm ? instance.vmCid : null,
    active: hasVm ? true : null,
    vm_created_at: vmCreatedAt,
    cloud_properties: instance.basis?.cloudProperties ?? {},
    disk_cid: cids[0] ?? null,
    disk_cids: cids,
    ips: ipsOf(instance),
    agent_id: hasVm ? instance.agentId : null,
    job_name: instance.group,
    index: instance.index,
    job_state: jobState(hasVm, agent),
    state: instance.state ?? "started",
    vm_type: instance.basis?.vmType || null,
    vitals: readableVitals(agent?.vitals),
    processes: readableProcesses(agent?.processes),
    az: instance.az === "" ? null : instance.az,
    id: instance.instanceId,
    bootstrap: instance.index === 0,
    ignore: instance.ignore ?? false,
    stemcell: stemcellOf(instance),
  };
  return JSON.stringify(line).length <= MAX_LINE_LENGTH ? line : { ...line, vitals: null, processes: [] };
}

function jobState(hasVm: boolean, agent: Readonly<Record<string, unknown>> | undefined): string | null {
  if (!hasVm) return null;
  if (agent === undefined) return UNRESPONSIVE;
  return typeof agent.job_state === "string" ? agent.job_state : "running";
}

/** Returns an instance's address on each network: the address in use, otherwise the reserved address. */
export function ipsOf({ ips, networks }: Pick<Instance, "ips" | "networks">): string[] {
  const names = new Set([...Object.keys(ips), ...Object.keys(networks)]);
  const shown = [...names].map((name) => ipIn(networks[name]) ?? ips[name]);
  return [...new Set(shown.filter((ip) => ip !== undefined))];
}

function ipIn(network: unknown): string | undefined {
  const ip = isJsonObject(network) ? network.ip : undefined;
  return typeof ip === "string" && ip !== "" ? ip : undefined;
}

function stemcellOf({ stemcell, stemcellApiVersion }: Instance): object | null {
  return stemcell === "" ? null : { ...parseStemcell(stemcell), api_version: stemcellApiVersion };
}
