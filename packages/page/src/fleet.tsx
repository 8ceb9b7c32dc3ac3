import { useMemo } from "preact/hooks";
import { FleetMap } from "./fleet-map.js";
import { useSelection } from "./hooks.js";
import { State } from "./lists.js";
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

/** Shows the states of all hosts and devices, and the map. */
export function Fleet({ store }: { store: Store }) {
  const { host } = store.tables;
  const selection = useSelection();
  const { version } = store;
  const { hosts, counts } = useMemo(() => ({ hosts: [...host], counts: countsOf(host) }), [host, version]);
  if (host.size === 0)
    return <p class="none">{store.isReading("disk-registry") ? "Loading the hosts…" : noHosts(store)}</p>;
  return (
    <section aria-labelledby="fleet-title" id="fleet">
      <h2 id="fleet-title">Fleet</h2>
      <div class="counts">
        <Counts what="hosts" states={HOST_STATES} counts={counts.hosts} />
        <Counts what="devices" states={Object.values(DEVICE_LETTERS)} counts={counts.devices} />
      </div>
      <FleetMap hosts={hosts} selected={selection?.kind === "host" ? selection.name : undefined} />
    </section>
  );
}

export function noHosts({ tables }: Store): string {
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
