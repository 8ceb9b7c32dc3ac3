import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Activity } from "./activity.js";
import type { Attention } from "./attention.js";
import { Detail } from "./detail.js";
import { Events } from "./events.js";
import { Fleet } from "./fleet.js";
import { useHash, useSelection, useStore, useTicks } from "./hooks.js";
import { Age, type Column, inOrder, List, labelOf, State, Thing, withLabels } from "./lists.js";
import { LoginForm, LogOut, useSession } from "./login.js";
import type { CpiRow, DiskRow, LockRow, OrphanRow, PoolRow, SourceRow, TaskRow, VmRow } from "./rows.js";
import { type Store, store } from "./store.js";
import { clockText, heardText, sizeText } from "./text.js";
import { attentionOf, countOf, Trouble } from "./trouble.js";

const AGES_MS = 10_000;
/** Beginning of the URL fragment of the events, before the filters. */
const EVENTS = "#events?";

const DISKS: readonly Column<DiskRow>[] = [
  { title: "disk", cell: (name) => <Thing kind="disk" name={name} /> },
  { title: "state", cell: (_name, { state }) => <State state={state} /> },
  { title: "on", cell: (_name, { host }) => host !== "" && <Thing kind="host" name={host} /> },
  { title: "size", cell: (_name, { sizeBytes }) => sizeText(sizeBytes), isNumber: true },
  { title: "pool", cell: (_name, { pool }) => pool },
  { title: "health", cell: (_name, { health }) => <State state={health} /> },
];

const POOLS: readonly Column<PoolRow>[] = [
  { title: "pool", cell: (_name, { pool }) => <Thing kind="pool" name={pool} /> },
  { title: "az", cell: (_name, { az }) => az },
  { title: "free", cell: (_name, { freeBytes }) => sizeText(freeBytes), isNumber: true },
  { title: "largest disk", cell: (_name, { maxDiskBytes }) => sizeText(maxDiskBytes), isNumber: true },
  { title: "total", cell: (_name, { totalBytes }) => sizeText(totalBytes), isNumber: true },
];

const VMS: readonly Column<VmRow>[] = [
  { title: "instance", cell: (name) => <Thing kind="vm" name={name} /> },
  { title: "VM", cell: (_name, { state }) => <State state={state} /> },
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
    title: "what",
    cell: (_name, { description, progress }) => [withLabels(description), progress].filter(Boolean).join(": "),
  },
  { title: "by", cell: (_name, { user }) => user },
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
  { title: "api", cell: (_name, { apiVersion }) => apiVersion || "", isNumber: true },
  { title: "last error", cell: (_name, { lastError }) => lastError || "none" },
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

/** Shows the page to logged-in users, and the login form to others. */
function Entrance() {
  const { name, failure } = useSession();
  useEffect(() => {
    if (name) void store.open();
  }, [name]);
  if (name === undefined) return null;
  return name === "" ? <LoginForm failure={failure} /> : <Page user={name} />;
}

function Page({ user }: { user: string }) {
  const known = useStore();
  const selection = useSelection();
  const hash = useHash();
  const [filter, setFilter] = useState("");
  useTicks(AGES_MS);
  const isStale = known.heardAtMs > 0 && !known.isLive;
  useEffect(() => {
    document.body.classList.toggle("stale", isStale);
  }, [isStale]);
  const found = attentionOf(known);
  const count = countOf(found);
  useEffect(() => {
    document.title = count === 0 ? "diskmesh" : `(${count}) diskmesh`;
  }, [count]);
  const isEvents = hash === "#events" || hash.startsWith(EVENTS);
  return (
    <>
      <a class="skip" href="#overview">
        Skip to the overview
      </a>
      <header class="top">
        <h1>diskmesh</h1>
        <nav aria-label="Views">
          <a href="#overview" {...(!isEvents && { "aria-current": "page" as const })}>
            Overview
          </a>
          <a href="#events" {...(isEvents && { "aria-current": "page" as const })}>
            Events
          </a>
          <a href="/page/docs/README.md">Docs</a>
        </nav>
        {!isEvents && (
          <label class="find">
            <span class="soft">Find</span>
            <input type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
          </label>
        )}
        <Liveness known={known} isStale={isStale} />
        <LogOut name={user} />
      </header>
      <div class={selection && selection.kind !== "overview" ? "panes with-detail" : "panes"}>
        <main id="overview" tabIndex={-1}>
          {isEvents ? (
            <Events query={hash.slice(EVENTS.length)} />
          ) : (
            <Overview known={known} filter={filter} found={found} />
          )}
        </main>
        {selection && <Detail key={`${selection.kind} ${selection.name}`} selection={selection} store={known} />}
      </div>
    </>
  );
}

interface OverviewProps {
  readonly known: Store;
  readonly filter: string;
  readonly found: readonly Attention[];
}

function Overview({ known, filter, found }: OverviewProps) {
  const { disk, pool, vm, task, lock, cpi, orphan, source } = known.tables;
  const wanted = filter.toLowerCase();
  const matches = (...texts: readonly string[]): boolean => texts.some((text) => text.toLowerCase().includes(wanted));
  const isLoading = known.isReading("director");
  return (
    <>
      <Trouble store={known} found={found} />
      <Fleet store={known} filter={filter} />
      <Activity />
      <div class="pair">
        <List
          id="pools"
          title="Space"
          columns={POOLS}
          rows={inOrder<"pool">(pool, (_name, row) => matches(row.pool, row.az))}
          none="No device is attached."
          isLoading={known.isReading("disk-registry")}
        />
        <List
          id="disks"
          title="Disks"
          columns={DISKS}
          rows={inOrder<"disk">(
            disk,
            (name, row) =>
              // Deleted disks are shown to those who look for them.
              (row.state !== "deleted" || wanted !== "") &&
              matches(name, labelOf("disk", name), row.host, row.state, row.pool, row.az),
          )}
          none="No disks."
          isLoading={known.isReading("disk-registry")}
        />
        <List
          id="vms"
          title="VMs"
          columns={VMS}
          rows={inOrder<"vm">(vm, (name, row) => matches(name, row.id, row.state, row.cid, row.cpi, row.az))}
          none="No instances are deployed."
          isLoading={isLoading}
        />
        <List
          id="tasks"
          title="Tasks"
          columns={TASKS}
          rows={[...task]
            .filter(([name, row]) => matches(name, withLabels(row.description), row.state, row.user))
            .sort(byTask)}
          none="No tasks."
          isLoading={isLoading}
        />
      </div>
      <div class="small">
        <List
          id="locks"
          title="Locks"
          columns={LOCKS}
          rows={inOrder<"lock">(lock)}
          none="Nobody holds a lock."
          isLoading={isLoading}
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
            isLoading={isLoading}
          />
        )}
        <List
          id="sources"
          title="Services"
          columns={SOURCES}
          rows={inOrder<"source">(source)}
          none="Nobody yet."
          isLoading={!known.isComplete}
        />
      </div>
    </>
  );
}

/** Sorts running tasks first, then the newest. */
function byTask([a, rowA]: readonly [string, TaskRow], [b, rowB]: readonly [string, TaskRow]): number {
  return Number(rowA.hasEnded) - Number(rowB.hasEnded) || Number(b) - Number(a);
}

function Liveness({ known, isStale }: { known: Store; isStale: boolean }) {
  if (known.heardAtMs === 0 && known.tables.source.size === 0) return <p class="liveness">connecting…</p>;
  if (known.heardAtMs === 0) return <p class="liveness trouble">Not live. Trying again.</p>;
  if (!isStale)
    return (
      <p class="liveness live">
        <span class="mark" aria-hidden="true" />
        live
      </p>
    );
  return (
    <p class="liveness trouble" role="alert">
      Not live: this is as of {clockText(known.heardAtMs)}. Trying again.
    </p>
  );
}

render(<Entrance />, document.getElementById("page") as HTMLElement);
