import { troubleIn } from "@diskmesh/domain";
import type { LabelRow, VmRow } from "@diskmesh/page/rows";
import type { AgentHealths } from "../agents/agent-healths.js";
import type { Known } from "../explain/cause.js";
import { vmCauses } from "../explain/explain-vm.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTables } from "../store/schema.js";
import { about } from "./fleet-rows.js";

/**
 * Resolution of the time of the last heartbeat. With a finer resolution, each heartbeat of each agent would change a
 * row.
 */
const HEARD_STEP_MS = 60_000;

/** Returns the rows of instances and their VMs by the instances' names. */
export function vmRows(
  instances: Iterable<Instance>,
  known: Known,
  agentHealths: Pick<AgentHealths, "shown">,
): Map<string, VmRow> {
  return new Map(Array.from(instances, (instance) => [instanceName(instance), vmRow(instance, known, agentHealths)]));
}

function vmRow(
  { instanceId, agentId, vmState, vmCid, cpi, az, jobs = "started" }: Instance,
  known: Known,
  agentHealths: Pick<AgentHealths, "shown">,
): VmRow {
  const vm = known.vmOf(instanceId);
  const trouble = troubleIn(vmCauses(vm, known));
  const heardAtMs = (agentId === "" ? undefined : agentHealths.shown(agentId).health?.heardAtMs) ?? 0;
  return {
    id: instanceId,
    state: vmState,
    cid: vmCid,
    cpi,
    az,
    jobs,
    disks: vm?.disks.map(({ diskCid }) => diskCid).filter(Boolean) ?? [],
    heardMs: Math.floor(heardAtMs / HEARD_STEP_MS) * HEARD_STEP_MS,
    ...about(trouble?.message ?? "", trouble?.sinceMs === undefined ? undefined : new Date(trouble.sinceMs)),
  };
}

/** Returns the users' names of disks by the disks' cids: a persistent disk is named by its instance. */
export function labelRows({ disks, persistentDisks, instances }: DirectorTables): Map<string, LabelRow> {
  const rows = new Map<string, LabelRow>();
  for (const { diskCid, name, deployment, vmCid } of disks.entries())
    if (diskCid !== "")
      rows.set(diskCid, {
        text: name,
        of: deployment === "" ? "host" : "instance",
        ...(vmCid !== "" && { isAttached: true }),
      });
  for (const { diskCid, instanceId } of persistentDisks.entries()) {
    const instance = instanceId === "" ? undefined : instances.get(instanceId);
    if (diskCid !== "" && instance !== undefined) rows.set(diskCid, { text: `disk of ${instanceName(instance)}` });
  }
  return rows;
}

/** Returns the name under which people know an instance. */
export function instanceName({ deployment, group, index }: Instance): string {
  return `${deployment}/${group}/${index}`;
}
