import { setImmediate } from "node:timers/promises";
import { observe } from "@diskmesh/metrics";
import type { Context } from "./calls/context.js";
import { registryMetrics } from "./metrics/declarations.js";
import { SortedSharers } from "./model/devices/sorted-sharers.js";
import { type Known, REASONS, type Subject } from "./model/explain/cause.js";
import { troubleOf } from "./model/explain/explain.js";
import type { RegistryTables } from "./model/store/schema.js";
import type { TableChanges } from "./workers/table-changes.js";

/** Maximum things explained per turn of the event loop. This number of things takes a few milliseconds. */
const NAMES_AT_ONCE = 1_000;

type Observed = Pick<Context, "tablet" | "tableChanges" | "known">;

/** Reports the number of hosts, devices and disks by trouble code as metrics; returns a function that stops this. */
export function observeTroubles({ tablet, tableChanges, known }: Observed): () => void {
  const { hosts, devices, disks } = tableChanges;
  const all = [
    new Troubles("HOST", hosts, (tables) => Array.from(tables.hosts.entries(), ({ hostId }) => hostId)),
    new Troubles("DEVICE", devices, (tables) => Array.from(tables.devices.entries(), ({ deviceId }) => deviceId)),
    new Troubles("DISK", disks, (tables) => Array.from(tables.disks.entries(), ({ diskId }) => diskId)),
  ];
  return observe(registryMetrics.troubles, async (say) => {
    for (const troubles of all) await troubles.lookAgain(tablet, known);
    for (const { kind, counts } of all) for (const code of REASONS[kind]) say(counts.get(code) ?? 0, { kind, code });
  });
}

/** Trouble codes of all things of a kind. The cost of an update depends on the number of changes since the last one. */
class Troubles {
  counts: ReadonlyMap<string, number> = new Map();
  /** Position before all changes, so the first update reads everything. */
  #position = -1;
  readonly #codes = new Map<string, string>();

  constructor(
    readonly kind: keyof typeof REASONS,
    private readonly changes: TableChanges,
    private readonly allNames: (tables: RegistryTables) => readonly string[],
  ) {}

  /** Updates the codes. Rejects when another process may lead, because that process reports the troubles then. */
  async lookAgain(tablet: Observed["tablet"], known: Known): Promise<void> {
    const changed = this.changes.since(this.#position, Number.POSITIVE_INFINITY);
    const { end } = this.changes;
    // `ahead`, unlike `read`, does not wait for the store: metrics matter most while the store does not answer.
    const names = tablet.ahead((tables) =>
      changed === undefined ? this.allNames(tables) : [...this.changes.expand(tables, changed.keys)],
    );
    if (changed === undefined) this.#codes.clear();
    for (let first = 0; first < names.length; first += NAMES_AT_ONCE) {
      await setImmediate();
      tablet.ahead((tables) => this.#look(tables, names.slice(first, first + NAMES_AT_ONCE), known));
    }
    this.#position = end;
    const counts = new Map<string, number>();
    for (const code of this.#codes.values()) counts.set(code, (counts.get(code) ?? 0) + 1);
    this.counts = counts;
  }

  #look(tables: RegistryTables, names: readonly string[], known: Known): void {
    const { find: findSharers } = new SortedSharers(tables, known.serialNumbersOfMany);
    const shared = { ...known, findSharers };
    for (const name of names) {
      const trouble = troubleOf(tables, { kind: this.kind, name } as Subject, shared);
      if (trouble === undefined) this.#codes.delete(name);
      else this.#codes.set(name, trouble.reason);
    }
  }
}
