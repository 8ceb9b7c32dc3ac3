import { useMemo } from "preact/hooks";
import { FleetMap } from "./fleet-map.js";
import { useSelection } from "./hooks.js";
import { Age, type Column, inOrder, List, State, Thing } from "./lists.js";
import { DEVICE_LETTERS, type DeviceLetter, type HostRow, hostStateOf } from "./rows.js";
import type { Store } from "./store.js";

const HOST_STATES = [
  "online",
  "warning",
  "suspected",
  "unavailable",
  "dead",
  "cordoned",
  "leaving",
  "removed",
] as const;

const COLUMNS: readonly Column<HostRow>[] = [
  { title: "host", cell: (name) => <Thing kind="host" name={name} /> },
  { title: "state", cell: (_name, row) => <State state={hostStateOf(row)} /> },
  { title: "for", cell: (_name, { sinceMs }) => <Age sinceMs={sinceMs} /> },
  { title: "az", cell: (_name, { az }) => az },
  { title: "rack", cell: (_name, { rack }) => rack },
  { title: "devices", cell: (_name, { devices }) => devices.length, isNumber: true },
];

export function Fleet({ store, filter }: { store: Store; filter: string }) {
  const { host, vm: vms } = store.tables;
  const selection = useSelection();
  const { version } = store;
  const known = useMemo(() => {
    const wanted = filter.toLowerCase();
    const matches = (name: string, row: HostRow): boolean =>
      wanted === "" ||
      [name, hostStateOf(row), row.az, row.rack, row.vm].some((text) => text.toLowerCase().includes(wanted));
    const instanceOf = new Map([...vms].map(([name, { cid }]) => [cid, name]));
    return { rows: inOrder<"host">(host, matches), counts: countsOf(host), instanceOf };
  }, [host, version, filter]);
  const { rows, counts, instanceOf } = known;
  const instance: Column<HostRow> = {
    title: "serves as",
    cell: (_name, { vm }) => {
      const name = vm === "" ? undefined : instanceOf.get(vm);
      return name === undefined ? vm : <Thing kind="vm" name={name} />;
    },
  };
  const isLoading = store.isReading("disk-registry");
  return (
    <section aria-labelledby="fleet-title" id="fleet">
      <h2 id="fleet-title">Fleet</h2>
      {(host.size > 0 || !isLoading) && (
        <div class="counts">
          <Counts what="hosts" states={HOST_STATES} counts={counts.hosts} />
          <Counts what="devices" states={Object.values(DEVICE_LETTERS)} counts={counts.devices} />
        </div>
      )}
      {host.size > 0 && <FleetMap hosts={rows} selected={selection?.kind === "host" ? selection.name : undefined} />}
      <List
        id="hosts"
        title="Hosts"
        rows={rows}
        columns={[...COLUMNS, instance]}
        none={noHosts(store, filter)}
        isLoading={isLoading}
      />
    </section>
  );
}

function noHosts({ tables }: Store, filter: string): string {
  if (filter !== "" && tables.host.size > 0) return "No host matches.";
  const registries = [...tables.source.keys()].filter((name) => name.startsWith("disk-registry"));
  if (registries.length === 0) return "No disk-registry is named in the director's config (nodes.registries).";
  return "No host has registered.";
}

function Counts({
  what,
  states,
  counts,
}: {
  what: string;
  states: readonly string[];
  counts: ReadonlyMap<string, number>;
}) {
  const total = [...counts.values()].reduce((sum, each) => sum + each, 0);
  return (
    <p>
      <strong>{total.toLocaleString("en")}</strong> {what}
      {states
        .filter((state) => (counts.get(state) ?? 0) > 0)
        .map((state) => (
          <span key={state} class="counted">
            <b>{(counts.get(state) ?? 0).toLocaleString("en")}</b> <State state={state} />
          </span>
        ))}
    </p>
  );
}

function countsOf(hosts: ReadonlyMap<string, HostRow>): {
  readonly hosts: ReadonlyMap<string, number>;
  readonly devices: ReadonlyMap<string, number>;
} {
  const byState = new Map<string, number>();
  const byLetter = new Map<string, number>();
  const count = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);
  for (const row of hosts.values()) {
    count(byState, hostStateOf(row));
    for (const letter of row.devices) count(byLetter, letter);
  }
  const named = [...byLetter].map(([letter, each]) => [DEVICE_LETTERS[letter as DeviceLetter], each] as const);
  return { hosts: byState, devices: new Map(named) };
}
