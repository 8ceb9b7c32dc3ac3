import { type Device, type Disk, type Host, schema } from "@diskmesh/disk-registry/simulation";
import { FencedError, UnavailableError } from "@diskmesh/domain";
import {
  type Change,
  type Claim,
  type OnDocument,
  restoredClaim,
  restoredDocument,
  type Table,
  type TabletStorage,
} from "@diskmesh/tablet";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";
import type { SimNetwork } from "./network.js";
import type { SimProcess, Timeline } from "./seed/timeline.js";

const FIRST_CLAIM: Claim = {
  tabletId: "tablet-sim",
  incarnation: "incarnation-1",
  parentIncarnations: [],
  generation: 0,
};
/** Place of the store, for partitions. */
export const STORE_PLACE = "store";
const RETRY_WHEN_CUT_OFF_MS = 250;

type StoredTables = ReadonlyMap<string, ReadonlyMap<string, object>>;

/** Contents of a store at one moment. */
export interface StoreCopy {
  readonly claim: Claim;
  readonly tables: StoredTables;
}

/** Returns the store that the service's own restore creates from that copy. */
export function restored({ claim, tables }: StoreCopy, incarnation: string): StoreCopy {
  const documents = [...tables].map(([name, table]): [string, ReadonlyMap<string, object>] => {
    const definition = (schema as Record<string, Table<object>>)[name];
    return [name, new Map([...table].map(([key, document]) => [key, restoredDocument(definition, document)]))];
  });
  return { claim: restoredClaim(claim, incarnation), tables: new Map(documents) };
}

/** Durable state of the registry's tablet: one history of it. */
export class SimStore {
  readonly #tables: Map<string, Map<string, object>>;
  #claim: Claim;

  constructor({ claim, tables }: StoreCopy = { claim: FIRST_CLAIM, tables: new Map() }) {
    this.#claim = claim;
    this.#tables = new Map([...tables].map(([name, table]) => [name, new Map(table)]));
  }

  get generation(): number {
    return this.#claim.generation;
  }

  get incarnation(): string {
    return this.#claim.incarnation;
  }

  copy(): StoreCopy {
    const tables = [...this.#tables].map(([name, table]): [string, ReadonlyMap<string, object>] => [
      name,
      new Map(table),
    ]);
    return { claim: this.#claim, tables: new Map(tables) };
  }

  /** Called with each durable commit. `apply` makes the changes visible to `get`. */
  onCommit: (changes: readonly Change[], apply: () => void, by: SimProcess) => void = (_, apply) => apply();

  claim(): Claim {
    this.#claim = { ...this.#claim, generation: this.generation + 1 };
    return this.#claim;
  }

  claimAbove(own: number, generation: number): number {
    this.requireLatest(own);
    this.#claim = { ...this.#claim, generation: Math.max(own, generation) + 1 };
    return this.generation;
  }

  commit(generation: number, changes: readonly Change[], by: SimProcess): void {
    this.requireLatest(generation);
    this.onCommit(changes, () => this.#apply(changes), by);
  }

  requireLatest(generation: number): void {
    if (generation !== this.generation)
      throw new FencedError(`generation ${generation} was replaced by ${this.generation}`);
  }

  #apply(changes: readonly Change[]): void {
    for (const { table, key, document } of changes) {
      if (document === null) this.#table(table).delete(key);
      else this.#table(table).set(key, document);
    }
  }

  #table(name: string): Map<string, object> {
    let table = this.#tables.get(name);
    if (table === undefined) {
      table = new Map();
      this.#tables.set(name, table);
    }
    return table;
  }

  tableNames(): readonly string[] {
    return [...this.#tables.keys()];
  }

  entries(table: string): Iterable<[string, object]> {
    return this.#table(table);
  }

  device(deviceId: string): Device | undefined {
    return this.#table("devices").get(deviceId) as Device | undefined;
  }

  disk(diskId: string): Disk | undefined {
    return this.#table("disks").get(diskId) as Disk | undefined;
  }

  host(hostId: string): Host | undefined {
    return this.#table("hosts").get(hostId) as Host | undefined;
  }

  devices(): Iterable<Device> {
    return this.#table("devices").values() as Iterable<Device>;
  }

  disks(): Iterable<Disk> {
    return this.#table("disks").values() as Iterable<Disk>;
  }

  hosts(): Iterable<Host> {
    return this.#table("hosts").values() as Iterable<Host>;
  }

  /** Returns the last value that a counter gave out. */
  counter(name: string): number {
    return (this.#table("counters").get(name) as { value: number } | undefined)?.value ?? 0;
  }
}

/** Connection of one registry process to the store: slow, cut off, or failing with an unknown outcome. */
export class SimStorage implements TabletStorage {
  #generation = 0;
  /** Commit that has not reached the store yet. */
  #onItsWay: (() => void) | undefined;

  constructor(
    private readonly store: SimStore,
    private readonly process: SimProcess,
    private readonly world: {
      readonly timeline: Timeline;
      readonly random: Random;
      readonly faults: Faults;
      readonly network: SimNetwork;
    },
  ) {}

  async claim(): Promise<Claim> {
    const claim = await this.#reach(() => this.store.claim());
    this.#generation = claim.generation;
    return claim;
  }

  async load(onDocument: OnDocument): Promise<void> {
    const stored = await this.#reach(() => {
      const documents: [string, string, string][] = [];
      for (const table of this.store.tableNames())
        for (const [key, document] of this.store.entries(table)) documents.push([table, key, JSON.stringify(document)]);
      return documents;
    });
    for (const [table, key, text] of stored)
      onDocument(table, key, { document: JSON.parse(text), version: versionOf(table) });
  }

  async commit(changes: readonly Change[]): Promise<void> {
    const { random, faults } = this.world;
    const unknown = random.chance(faults.unknownCommit) ? (random.chance(0.5) ? "done" : "lost") : undefined;
    await this.#reach(() => {
      if (unknown !== "lost") this.store.commit(this.#generation, changes, this.process);
    }, true);
    if (unknown !== undefined)
      throw new UnavailableError("the store's answer was lost: nobody knows what became of the commit", {
        outcome: "unknown",
      });
  }

  renew(): Promise<void> {
    return this.#reach(() => this.store.requireLatest(this.#generation));
  }

  async claimAbove(generation: number): Promise<number> {
    return this.#reach(() => {
      this.#generation = this.store.claimAbove(this.#generation, generation);
      return this.#generation;
    });
  }

  async close(): Promise<void> {}

  /** Ends the connection of a dead process: a commit in transit takes effect now or never. */
  crash(): void {
    const onItsWay = this.#onItsWay;
    this.#onItsWay = undefined;
    if (onItsWay === undefined || this.world.random.chance(0.5)) return;
    try {
      onItsWay();
    } catch (error) {
      if (!(error instanceof FencedError)) throw error;
    }
  }

  /** Runs an action at the store, with delays before and after it. */
  #reach<T>(action: () => T, isCommit = false): Promise<T> {
    const { timeline, random, faults } = this.world;
    const delayMs = (): number => random.delayMs(faults.commitMs, 3_000, faults.slowCommit);
    return new Promise((resolve, reject) => {
      if (isCommit) this.#onItsWay = action;
      const arrive = (): void => {
        if (isCommit && this.#onItsWay === undefined) return;
        if (this.world.network.isBlocked(this.process.place, STORE_PLACE)) {
          timeline.after(RETRY_WHEN_CUT_OFF_MS, undefined, "", arrive);
          return;
        }
        if (isCommit) this.#onItsWay = undefined;
        try {
          const result = action();
          timeline.after(delayMs(), this.process, "", () => resolve(result));
        } catch (error) {
          timeline.after(delayMs(), this.process, "", () => reject(error));
        }
      };
      timeline.after(delayMs(), undefined, "", arrive);
    });
  }
}

/** Returns the version under which the program stores documents of the table. */
function versionOf(table: string): number {
  const { version = 1 }: { readonly version?: number | undefined } = schema[table as keyof typeof schema];
  return version;
}
