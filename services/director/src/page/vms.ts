import type { VmRow } from "@diskmesh/page/rows";
import type { Clock } from "@diskmesh/service";
import type { AgentHealths, ShownHealth } from "../agents/agent-healths.js";
import { agentOfOwedRemoval } from "../disks/owed-removal.js";
import { forgottenText, isForgottenHost } from "../explain/explain-vm.js";
import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { DirectorTables } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { about } from "./fleet-rows.js";
import type { RowCache } from "./row-cache.js";

export interface VmsOptions {
  readonly rowCache: RowCache;
  readonly tablet: DirectorTablet;
  readonly agentHealths: Pick<AgentHealths, "shown">;
  /** Returns the cids of the VMs that are hosts of registries; undefined while not all hosts are known. */
  readonly hostVmCids: () => ReadonlySet<string> | undefined;
  readonly lookIntervalMs: number;
  readonly clock: Clock;
}

/** Interval of health checks, because agents fall silent without a change in the tablet. */
const HEALTH_INTERVAL_MS = 5_000;
/**
 * Resolution of the time of the last heartbeat. With a finer resolution, each heartbeat of each agent would change a
 * row.
 */
const HEARD_STEP_MS = 60_000;
/** Maximum rows made before yielding to the event loop, so that other requests are not delayed long. */
const ROWS_AT_ONCE = 500;

/** Keeps the cached rows of all instances and their VMs current until the signal aborts. */
export async function keepVms(options: VmsOptions, signal: AbortSignal) {
  const { rowCache, tablet, agentHealths, hostVmCids, lookIntervalMs, clock } = options;
  const vms = new Vms(rowCache, agentHealths);
  const unwatch = tablet.watch((changes) => {
    for (const { table, key, document } of changes) {
      if (table === "instances") vms.changed.add(key);
      if (table === "owedRemovals") vms.owing.add(agentOfOwedRemoval(key));
      if (table === "disks" || table === "persistentDisks")
        vms.diskChanged(`${table} ${key}`, document as Disk | PersistentDisk | null);
    }
  });
  try {
    await tablet.read((tables) => vms.readAll(tables));
    let lookedAtMs = clock.monotonicMs();
    while (!signal.aborted) {
      if (clock.monotonicMs() - lookedAtMs > HEALTH_INTERVAL_MS) {
        lookedAtMs = clock.monotonicMs();
        await tablet.read((tables) => vms.noteTasks(tables));
        vms.lookAgain(hostVmCids());
      }
      if (vms.owing.size > 0) await tablet.read((tables) => vms.oweChanged(tables));
      while (vms.changed.size > 0 && !signal.aborted) {
        const instanceIds = [...vms.changed].slice(0, ROWS_AT_ONCE);
        for (const instanceId of instanceIds) vms.changed.delete(instanceId);
        await tablet.read((tables) => {
          vms.noteTasks(tables);
          vms.show(tables, instanceIds);
        });
      }
      await clock.sleep(lookIntervalMs, signal).catch(() => {});
    }
  } finally {
    unwatch();
  }
}

export class Vms {
  /** Instances with outdated rows. */
  readonly changed = new Set<string>();
  /** Agents whose pending detach notifications have changed. */
  readonly owing = new Set<string>();
  readonly #instanceOfDisk = new Map<string, string>();
  /** The cids of disks that have a label. */
  readonly #labelled = new Map<string, string>();
  /** Instances whose VM is a host that its registry has removed. */
  readonly #forgotten = new Set<string>();
  /** Deployments with an unfinished task. */
  #busy: ReadonlySet<string> = new Set();
  /** Each instance's name and the facts known without its agent. */
  readonly #shown = new Map<
    string,
    {
      readonly name: string;
      readonly instance: Instance;
      readonly disks: string[];
      readonly owed: readonly Pick<OwedRemoval, "diskName" | "diskCid" | "sinceMs">[];
    }
  >();

  constructor(
    private readonly rowCache: RowCache,
    private readonly agentHealths: Pick<AgentHealths, "shown">,
  ) {}

  readAll(tables: DirectorTables): void {
    for (const { instanceId } of tables.instances.entries()) this.changed.add(instanceId);
    for (const disk of tables.disks.entries()) this.diskChanged(`disks ${disk.name}`, disk);
    for (const disk of tables.persistentDisks.entries()) this.diskChanged(`persistentDisks ${disk.diskId}`, disk);
  }

  noteTasks({ tasks }: Pick<DirectorTables, "tasks">): void {
    this.#busy = new Set([...tasks.by("byEnd", "live")].map(({ deployment }) => deployment));
  }

  /** Marks both the former and the new instance of the disk as changed. */
  diskChanged(key: string, disk: Disk | PersistentDisk | null): void {
    this.#label(key, disk?.diskCid ?? "", disk !== null && "name" in disk ? disk.name : undefined);
    const before = this.#instanceOfDisk.get(key);
    if (before !== undefined) this.changed.add(before);
    if (disk === null || disk.instanceId === "") {
      this.#instanceOfDisk.delete(key);
      return;
    }
    this.#instanceOfDisk.set(key, disk.instanceId);
    this.changed.add(disk.instanceId);
  }

  /** Sets the disk's label, and removes the label of its former cid. */
  #label(key: string, diskCid: string, text: string | undefined): void {
    const before = this.#labelled.get(key) ?? "";
    if (before !== "" && before !== diskCid) this.rowCache.set("label", before, undefined);
    if (diskCid === "") {
      this.#labelled.delete(key);
      return;
    }
    this.#labelled.set(key, diskCid);
    if (text !== undefined) this.rowCache.set("label", diskCid, { text });
  }

  oweChanged(tables: DirectorTables): void {
    for (const agentId of this.owing)
      for (const { instanceId } of tables.instances.by("byAgent", agentId)) this.changed.add(instanceId);
    this.owing.clear();
  }

  show(tables: DirectorTables, instanceIds: readonly string[]): void {
    for (const instanceId of instanceIds) {
      const before = this.#shown.get(instanceId);
      const instance = tables.instances.get(instanceId);
      const name = instance && `${instance.deployment}/${instance.group}/${instance.index}`;
      if (before !== undefined && before.name !== name) this.rowCache.set("vm", before.name, undefined);
      if (instance === undefined || name === undefined) {
        this.#shown.delete(instanceId);
        this.#forgotten.delete(instanceId);
        continue;
      }
      const persistent = [...tables.persistentDisks.by("byInstance", instanceId)];
      const own = [...persistent, ...tables.disks.by("byInstance", instanceId)];
      for (const { diskCid } of persistent)
        if (diskCid !== "") this.rowCache.set("label", diskCid, { text: `disk of ${name}` });
      const disks = own.map(({ diskCid }) => diskCid).filter(Boolean);
      const removals = instance.agentId === "" ? [] : [...tables.owedRemovals.by("byAgent", instance.agentId)];
      this.#shown.set(instanceId, { name, instance, disks, owed: removals });
      this.#setRow(instanceId);
    }
  }

  /**
   * Updates the rows of agents that have fallen silent and of hosts removed from registries, which change without the
   * tablet.
   */
  lookAgain(hostVmCids: ReadonlySet<string> | undefined): void {
    for (const [instanceId, { instance }] of this.#shown) {
      const isNowhere = hostVmCids !== undefined && !hostVmCids.has(instance.vmCid);
      if (instance.vmState === "running" && isForgottenHost({ instance, isNowhere })) this.#forgotten.add(instanceId);
      else this.#forgotten.delete(instanceId);
      this.#setRow(instanceId);
    }
  }

  #setRow(instanceId: string): void {
    const shown = this.#shown.get(instanceId);
    if (shown === undefined) return;
    const { name, instance, disks, owed } = shown;
    const health = instance.agentId === "" ? undefined : this.agentHealths.shown(instance.agentId);
    this.rowCache.set(
      "vm",
      name,
      vmRow(instance, disks, health, {
        owed,
        isForgotten: this.#forgotten.has(instanceId),
        isBusy: this.#busy.has(instance.deployment),
      }),
    );
  }
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
