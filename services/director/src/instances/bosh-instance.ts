import { UNRESPONSIVE } from "../agents/agent-health.js";
import { readableProcesses, readableVitals } from "../agents/agent-report.js";
import { parseStemcell } from "../specs/stemcell.js";
import type { Instance } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";
import type { PersistentDisk } from "../store/persistent-disk.js";

/** Clients cannot read one that is cut. */
const MAX_LINE_LENGTH = 16_000;

/** An instance as BOSH's clients list it, with what its agent says of itself; undefined when that does not answer. */
export function boshInstance(
  instance: Instance,
  disks: readonly PersistentDisk[],
  agent: Readonly<Record<string, unknown>> | undefined,
): object {
  const hasVm = instance.vmCid !== "";
  const cids = disks.map(({ diskCid }) => diskCid).filter(Boolean);
  const line = {
    vm_cid: hasVm ? instance.vmCid : null,
    active: hasVm ? true : null,
    vm_created_at: null,
    cloud_properties: {},
    disk_cid: cids[0] ?? null,
    disk_cids: cids,
    ips: ipsOf(instance),
    agent_id: hasVm ? instance.agentId : null,
    job_name: instance.group,
    index: instance.index,
    job_state: jobState(hasVm, agent),
    state: instance.state ?? "started",
    vm_type: null,
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

/** Those it was given, and those that the IaaS chose. */
export function ipsOf({ ips, networks }: Instance): string[] {
  const chosen = Object.values(networks).map((network) => (network as JsonObject | null)?.ip);
  const texts = chosen.filter((ip): ip is string => typeof ip === "string" && ip !== "");
  return [...new Set([...Object.values(ips), ...texts])];
}

function stemcellOf({ stemcell, stemcellApiVersion }: Instance): object | null {
  return stemcell === "" ? null : { ...parseStemcell(stemcell), api_version: stemcellApiVersion };
}
