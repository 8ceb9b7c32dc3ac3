import { Activity } from "./activity.js";
import type { Attention } from "./attention.js";
import { Fleet, noHosts } from "./fleet.js";
import { Age, type Column, inOrder, List, labelOf, State, Thing, Told, withLabels } from "./lists.js";
import {
  type CpiRow,
  type DiskRow,
  type HostRow,
  hostStateOf,
  type LockRow,
  type OrphanRow,
  type PoolRow,
  type SourceRow,
  type TaskRow,
  type VmRow,
} from "./rows.js";
import type { Store } from "./store.js";
import { heardText, sizeText } from "./text.js";
import { Trouble } from "./trouble.js";

/** The columns have the names of the command's. */
const HOSTS: readonly Column<HostRow>[] = [
  { title: "host", cell: (name) => <Thing kind="host" name={name} /> },
  { title: "state", cell: (_name, row) => <State state={hostStateOf(row)} /> },
  { title: "for", cell: (_name, { sinceMs }) => <Age sinceMs={sinceMs} /> },
  { title: "az", cell: (_name, { az }) => az },
  { title: "rack", cell: (_name, { rack }) => rack },
  { title: "devices", cell: (_name, { devices }) => devices.length, isNumber: true },
  { title: "VM", cell: (_name, { vm }) => vm !== "" && <Thing kind="vm" name={vm} /> },
];

const DISKS: readonly Column<DiskRow>[] = [
  { title: "disk", cell: (name) => <Thing kind="disk" name={name} /> },
  { title: "state", cell: (_name, { state }) => <State state={state} /> },
  { title: "published to", cell: (_name, { host }) => host !== "" && <Thing kind="host" name={host} /> },
  { title: "size", cell: (_name, { sizeBytes }) => sizeText(sizeBytes), isNumber: true },
  { title: "az", cell: (_name, { az }) => az },
  { title: "pool", cell: (_name, { pool }) => <Thing kind="pool" name={pool} /> },
  { title: "health", cell: (_name, { health }) => <State state={health} /> },
  { title: "limits", cell: (_name, { limits }) => limits },
];

const POOLS: readonly Column<PoolRow>[] = [
  { title: "pool", cell: (_name, { pool }) => <Thing kind="pool" name={pool} /> },
  { title: "az", cell: (_name, { az }) => az },
  { title: "used", cell: (_name, row) => <Used {...row} /> },
  { title: "total", cell: (_name, { totalBytes }) => sizeText(totalBytes), isNumber: true },
  { title: "free", cell: (_name, { freeBytes }) => sizeText(freeBytes), isNumber: true },
  { title: "deleted", cell: (_name, { deletedBytes }) => sizeText(deletedBytes), isNumber: true },
  { title: "for repair", cell: (_name, { repairBytes }) => sizeText(repairBytes), isNumber: true },
  { title: "largest disk", cell: (_name, { maxDiskBytes }) => sizeText(maxDiskBytes), isNumber: true },
  { title: "in one part", cell: (_name, { maxPartBytes }) => sizeText(maxPartBytes), isNumber: true },
];

const VMS: readonly Column<VmRow>[] = [
  { title: "instance", cell: (name) => <Thing kind="vm" name={name} /> },
  { title: "VM state", cell: (_name, { state }) => <State state={state} /> },
  { title: "agent heard", cell: (_name, { heardMs }) => heardText(heardMs) },
  {
    title: "disks",
    cell: (_name, { disks }) => disks.slice(0, 4).map((id) => <Thing key={id} kind="disk" name={id} />),
  },
  { title: "CPI", cell: (_name, { cpi }) => cpi || "default" },
  { title: "az", cell: (_name, { az }) => az },
];

const TASKS: readonly Column<TaskRow>[] = [
  { title: "task", cell: (name) => <Thing kind="task" name={name} />, isNumber: true },
  { title: "state", cell: (_name, { state }) => <State state={state} /> },
  {
    title: "description",
    cell: (_name, { description, progress }) => [withLabels(description), progress].filter(Boolean).join(": "),
  },
  { title: "user", cell: (_name, { user }) => user },
  { title: "for", cell: (_name, { sinceMs }) => <Age sinceMs={sinceMs} /> },
];

const LOCKS: readonly Column<LockRow>[] = [
  { title: "lock", cell: (name) => <Thing kind="lock" name={name} /> },
  {
    title: "held by",
    cell: (_name, { owner, taskId }) => (taskId === 0 ? owner : <Thing kind="task" name={String(taskId)} />),
  },
  {
    title: "waiting",
    cell: (_name, { waitingTaskIds }) =>
      waitingTaskIds.slice(0, 10).map((id) => <Thing key={id} kind="task" name={String(id)} />),
  },
];

const CPIS: readonly Column<CpiRow>[] = [
  { title: "CPI", cell: (name) => <Thing kind="cpi" name={name} /> },
  { title: "type", cell: (_name, { type }) => type },
  { title: "API", cell: (_name, { apiVersion }) => apiVersion || "", isNumber: true },
  { title: "last error", cell: (_name, { lastError }) => <Told text={lastError || "none"} /> },
];

const ORPHANS: readonly Column<OrphanRow>[] = [
  {
    title: "orphan",
    cell: (name, { objectCid }) => (
      <Thing kind="orphan" name={name}>
        {objectCid || name}
      </Thing>
    ),
  },
  { title: "kind", cell: (_name, { what }) => what },
  { title: "made for", cell: (_name, { madeFor }) => madeFor },
];

const SOURCES: readonly Column<SourceRow>[] = [
  { title: "service", cell: (name) => <Thing kind="source" name={name} /> },
  { title: "state", cell: (_name, { state }) => <State state={state} /> },
];

export interface PlaceProps {
  readonly known: Store;
  /** Text that listed objects must contain; empty for all. */
  readonly filter: string;
}

/** Returns whether one of the texts contains the filter. */
function matching(filter: string): (...texts: readonly string[]) => boolean {
  const wanted = filter.trim().toLowerCase();
  return (...texts) => texts.some((text) => text.toLowerCase().includes(wanted));
}

/** Shows what needs a person, and the whole mesh at a glance. */
export function Overview({ known, found }: { readonly known: Store; readonly found: readonly Attention[] }) {
  const { cpi, orphan, source } = known.tables;
  return (
    <>
      <Trouble store={known} found={found} />
      <Fleet store={known} />
      <Activity />
      <div class="small">
        <List
          id="sources"
          title="Services"
          columns={SOURCES}
          rows={inOrder<"source">(source)}
          none="Nobody yet."
          isLoading={!known.isComplete}
        />
        <List
          id="cpis"
          title="CPIs"
          columns={CPIS}
          rows={inOrder<"cpi">(cpi)}
          none="No CPIs are known."
          isLoading={known.isReading("cpi-dispatcher")}
        />
        {orphan.size > 0 && (
          <List
            id="orphans"
            title="Possible orphans"
            columns={ORPHANS}
            rows={inOrder<"orphan">(orphan)}
            none="Nothing is left behind."
            isLoading={known.isReading("director")}
          />
        )}
      </div>
    </>
  );
}

export function Hosts({ known, filter }: PlaceProps) {
  const { host, vm } = known.tables;
  const matches = matching(filter);
  return (
    <>
      <List
        id="hosts"
        title="Hosts"
        columns={HOSTS}
        rows={inOrder<"host">(host, (name, row) =>
          matches(name, hostStateOf(row), row.az, row.rack, row.vm, labelOf("vm", row.vm)),
        )}
        total={host.size}
        none={noHosts(known)}
        isLoading={known.isReading("disk-registry")}
      />
      <List
        id="vms"
        title="Instances"
        columns={VMS}
        rows={inOrder<"vm">(vm, (name, row) => matches(name, row.id, row.state, row.cid, row.cpi, row.az))}
        total={vm.size}
        none="No instances are deployed."
        isLoading={known.isReading("director")}
      />
    </>
  );
}

export function Disks({ known, filter }: PlaceProps) {
  const { disk } = known.tables;
  const matches = matching(filter);
  const present = [...disk.values()].filter(({ state }) => state !== "deleted").length;
  const deleted = disk.size - present;
  return (
    <List
      id="disks"
      title="Disks"
      columns={DISKS}
      rows={inOrder<"disk">(
        disk,
        (name, row) =>
          // Deleted disks are shown to those who look for them.
          (row.state !== "deleted" || filter.trim() !== "") &&
          matches(name, labelOf("disk", name), row.host, row.state, row.pool, row.az),
      )}
      total={present}
      none="No disks. A host's panel has the button that provides one."
      note={deleted > 0 ? `${deleted} deleted disks are kept: find “deleted” to see them.` : ""}
      isLoading={known.isReading("disk-registry")}
    />
  );
}

export function Tasks({ known, filter }: PlaceProps) {
  const { task, lock } = known.tables;
  const matches = matching(filter);
  const isLoading = known.isReading("director");
  return (
    <>
      <List
        id="tasks"
        title="Tasks"
        columns={TASKS}
        rows={[...task]
          .filter(([name, row]) => matches(name, withLabels(row.description), row.state, row.user))
          .sort(byTask)}
        total={task.size}
        none="No tasks."
        isLoading={isLoading}
      />
      <List
        id="locks"
        title="Locks"
        columns={LOCKS}
        rows={inOrder<"lock">(lock, (name) => matches(name))}
        total={lock.size}
        none="Nobody holds a lock."
        isLoading={isLoading}
      />
    </>
  );
}

export function Space({ known, filter }: PlaceProps) {
  const { pool } = known.tables;
  const matches = matching(filter);
  return (
    <List
      id="pools"
      title="Pools"
      columns={POOLS}
      rows={inOrder<"pool">(pool, (_name, row) => matches(row.pool, row.az))}
      total={pool.size}
      none="No device is attached."
      note="Deleted: bytes of deleted disks that undelete can bring back. For repair: bytes that must stay free so that any one host can be emptied. Largest disk: the largest that can be made now, which may have several parts. In one part: the largest without a second part."
      isLoading={known.isReading("disk-registry")}
    />
  );
}

function Used({ az, pool, totalBytes, freeBytes }: PoolRow) {
  const usedBytes = totalBytes - freeBytes;
  const percent = totalBytes === 0 ? 0 : Math.round((100 * usedBytes) / totalBytes);
  return (
    <span class="used">
      <meter aria-label={`used of ${pool} in ${az || "no az"}`} max={totalBytes} value={usedBytes} /> {percent} %
    </span>
  );
}

/** Sorts running tasks first, then the newest. */
function byTask([a, rowA]: readonly [string, TaskRow], [b, rowB]: readonly [string, TaskRow]): number {
  return Number(rowA.hasEnded) - Number(rowB.hasEnded) || Number(b) - Number(a);
}
