import type { VmRow } from "@diskmesh/page/rows";
import type { AgentHealths, ShownHealth } from "../agents/agent-healths.js";
import { forgottenText, isForgottenHost } from "../explain/explain-vm.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import type { DirectorTables } from "../store/schema.js";
import { about } from "./fleet-rows.js";

/**
 * Resolution of the time of the last heartbeat. With a finer resolution, each heartbeat of each agent would change a
 * row.
 */
const HEARD_STEP_MS = 60_000;

/** Facts about VMs that the tables do not contain. */
export interface KnownOfVms {
  readonly agentHealths: Pick<AgentHealths, "shown">;
  /** Returns whether no registry has the instance's VM as a host. */
  readonly isNowhere: (instance: Instance) => boolean;
}

/** Returns the rows of instances and their VMs by the instances' names. */
export function vmRows(
  tables: DirectorTables,
  instances: Iterable<Instance>,
  { agentHealths, isNowhere }: KnownOfVms,
): Map<string, VmRow> {
  const busy = new Set([...tables.tasks.by("byEnd", "live")].map(({ deployment }) => deployment));
  const rows = new Map<string, VmRow>();
  for (const instance of instances) {
    const { instanceId, agentId, deployment, vmState } = instance;
    const own = [...tables.persistentDisks.by("byInstance", instanceId), ...tables.disks.by("byInstance", instanceId)];
    const disks = own.map(({ diskCid }) => diskCid).filter(Boolean);
    const health = agentId === "" ? undefined : agentHealths.shown(agentId);
    const owed = agentId === "" ? [] : [...tables.owedRemovals.by("byAgent", agentId)];
    const isForgotten = vmState === "running" && isForgottenHost({ instance, isNowhere: isNowhere(instance) });
    rows.set(nameOf(instance), vmRow(instance, disks, health, { owed, isForgotten, isBusy: busy.has(deployment) }));
  }
  return rows;
}

/** Returns the users' names of disks by the disks' cids: a persistent disk is named by its instance. */
export function labelRows({
  disks,
  persistentDisks,
  instances,
}: DirectorTables): Map<string, { readonly text: string }> {
  const rows = new Map<string, { readonly text: string }>();
  for (const { diskCid, name } of disks.entries()) if (diskCid !== "") rows.set(diskCid, { text: name });
  for (const { diskCid, instanceId } of persistentDisks.entries()) {
    const instance = instanceId === "" ? undefined : instances.get(instanceId);
    if (diskCid !== "" && instance !== undefined) rows.set(diskCid, { text: `disk of ${nameOf(instance)}` });
  }
  return rows;
}

function nameOf({ deployment, group, index }: Instance): string {
  return `${deployment}/${group}/${index}`;
}

/** Facts about an instance's VM that neither its record nor its agent has. */
export interface KnownOfVm {
  /** Pending detach notifications to the VM's agent. */
  readonly owed?: readonly Pick<OwedRemoval, "diskName" | "diskCid" | "sinceMs">[];
  /** True: no registry has the VM as a host. */
  readonly isForgotten?: boolean;
  /** True: a task works on the deployment, and may yet make the VM. */
  readonly isBusy?: boolean;
}

export function vmRow(
  instance: Instance,
  disks: readonly string[],
  shown: ShownHealth | undefined,
  { owed = [], isForgotten = false, isBusy = false }: KnownOfVm = {},
): VmRow {
  const { instanceId, vmState, vmCid, cpi, az, jobs = "started" } = instance;
  const heardAtMs = shown?.health?.heardAtMs ?? 0;
  const isSilent = vmState === "running" && shown?.isResponsive === false;
  const silence = vmState === "lost" ? "its VM is gone" : isSilent && "its agent is silent";
  const [first] = owed;
  const debt =
    first !== undefined &&
    `its agent was unreachable when disk ${first.diskName || first.diskCid} was detached: the detach notification is pending`;
  const absence = !isBusy && absenceOf(instance);
  const trouble = [absence, isForgotten && forgottenText(instance), silence, debt].filter(Boolean).join("; ");
  const sinceMs = isSilent ? heardAtMs : Math.min(...owed.map((removal) => removal.sinceMs));
  return {
    id: instanceId,
    state: vmState,
    cid: vmCid,
    cpi,
    az,
    jobs,
    disks,
    heardMs: Math.floor(heardAtMs / HEARD_STEP_MS) * HEARD_STEP_MS,
    ...about(trouble, sinceMs > 0 && Number.isFinite(sinceMs) ? new Date(sinceMs) : undefined),
  };
}

/** Returns why an instance that should have a VM has none; empty for an instance that has one or needs none. */
function absenceOf({ vmState, state, leaving, deployment }: Instance): string {
  if (state === "detached" || leaving) return "";
  const again = `deploy ${deployment} again, or run cloud-check`;
  if (vmState === "none") return `its VM was not made, and no task is making it: ${again}`;
  return vmState === "creating" ? `it is not known whether its VM was made, and no task finds out: ${again}` : "";
}
