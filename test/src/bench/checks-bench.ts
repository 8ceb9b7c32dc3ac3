import { join } from "node:path";
import { checkOf, openStorage, type StoredChange, shapeOf, Tablet, type TabletStorage, table } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { open, type RootDatabase } from "lmdb";
import * as z from "zod";
import { compared, drainRatePerSecond, type Measurement, measurement } from "./measure.js";

const DOCUMENTS = 200_000;
const LOADS = 5;
const COMMIT_ROUNDS = 7;
const COMMITS_PER_ROUND = 6_400;
/** Callers whose transactions share commits, as those of a busy service do. */
const CALLERS = 64;

/** As many fields as a device has. */
interface Thing {
  readonly thingId: string;
  readonly hostId: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly serialNumber: string;
  readonly pool: string;
  readonly health: "ONLINE" | "ERROR";
  readonly state: "ATTACHED" | "DETACHED";
  readonly generation: number;
  readonly dirty: boolean;
  readonly leaving: boolean;
  readonly text: string;
  readonly changedAtMs: number;
}

const check = checkOf(
  shapeOf<Thing>()({
    thingId: z.string(),
    hostId: z.string(),
    path: z.string(),
    sizeBytes: z.int().min(0),
    serialNumber: z.string(),
    pool: z.string(),
    health: z.enum(["ONLINE", "ERROR"]),
    state: z.enum(["ATTACHED", "DETACHED"]),
    generation: z.int().min(0),
    dirty: z.boolean(),
    leaving: z.boolean(),
    text: z.string(),
    changedAtMs: z.number(),
  }),
);
const bareThings = table<Thing>()({
  key: ({ thingId }) => thingId,
  indexes: { byHost: ({ hostId }) => hostId, dirtyByHost: ({ hostId, dirty }) => (dirty ? hostId : undefined) },
});
const checkedSchema = { things: { ...bareThings, check } };
const bareSchema = { things: bareThings };

const idOf = (index: number) => `host-${`${Math.floor(index / 16)}`.padStart(6, "0")}-thing-${index % 16}`;
const thing = (index: number): Thing => ({
  thingId: idOf(index),
  hostId: `host-${`${Math.floor(index / 16)}`.padStart(6, "0")}`,
  path: `/dev/disk/by-id/nvme-${index}`,
  sizeBytes: 2 ** 40,
  serialNumber: `S4EWNX0R${index}`,
  pool: "standard",
  health: "ONLINE",
  state: "ATTACHED",
  generation: index,
  dirty: index % 8 === 0,
  leaving: false,
  text: "x".repeat(200),
  changedAtMs: 1_700_000_000_000 + index,
});

type ThingTablet = Tablet<typeof bareSchema>;

/** What it costs that every document is checked, at load and at commit: the same tablet with and without that, on LMDB. */
export async function benchChecks(): Promise<Measurement[]> {
  const folder = temporaryFolder();
  const openChecked = () =>
    Tablet.open({ name: "checked", schema: checkedSchema, storage: openStorage(folder, "checked"), address: "" });
  const openBare = () =>
    Tablet.open({ name: "bare", schema: bareSchema, storage: new BareStorage(join(folder, "bare")), address: "" });
  for (const openIt of [openChecked, openBare]) {
    await using tablet = await openIt();
    await fill(tablet);
  }
  const loads = await compared(LOADS, loadRate(openChecked), loadRate(openBare));
  await using checked = await openChecked();
  await using bare = await openBare();
  const commits = await compared(COMMIT_ROUNDS, commitRate(checked), commitRate(bare));
  return [
    measurement({
      name: "lmdb_load_checked",
      value: loads[0],
      unit: "documents/s",
      floor: loads[1],
      floorOf: "the same tablet without checksums, sums, shapes and check of the file",
      budget: { atLeast: 0.8 },
    }),
    measurement({
      name: `lmdb_commit_checked_${CALLERS}_callers`,
      value: commits[0],
      unit: "transactions/s",
      floor: commits[1],
      floorOf: "the same tablet without checksums, sums and shapes",
      budget: { atLeast: 0.9 },
    }),
  ];
}

async function fill(tablet: ThingTablet): Promise<void> {
  const step = 5_000;
  for (let first = 0; first < DOCUMENTS; first += step)
    await tablet.transact(({ things }) => {
      for (let index = first; index < first + step; index++) things.put(thing(index));
    });
}

function loadRate(openIt: () => Promise<ThingTablet>): () => Promise<number> {
  return async () => {
    const startedAtMs = performance.now();
    const tablet = await openIt();
    const tookMs = performance.now() - startedAtMs;
    await tablet.close();
    return (1_000 * DOCUMENTS) / tookMs;
  };
}

function commitRate(tablet: ThingTablet): () => Promise<number> {
  let next = 0;
  return () =>
    drainRatePerSecond({ concurrency: CALLERS, count: COMMITS_PER_ROUND }, () => {
      // Far from each other, as what callers change is.
      const id = idOf((next++ * 7_919) % DOCUMENTS);
      return tablet.transact(({ things }) => {
        const before = things.get(id) as Thing;
        things.put({ ...before, generation: before.generation + 1 });
      });
    });
}

/** Documents as JSON in LMDB, believed as they are. */
class BareStorage implements TabletStorage {
  readonly #root: RootDatabase<string, string>;

  constructor(folder: string) {
    const options = { noSubdir: false, overlappingSync: false, eventTurnBatching: false } as const;
    this.#root = open<string, string>({ ...options, path: folder, encoding: "string" });
  }

  async claim() {
    return { tabletId: "bare", incarnation: "bare", parentIncarnations: [], generation: 1 };
  }

  async load(onDocument: Parameters<TabletStorage["load"]>[0]): Promise<void> {
    for (const { key, value } of this.#root.getRange())
      onDocument("things", key, { document: JSON.parse(value), version: 1 });
  }

  async commit(changes: readonly StoredChange[]): Promise<void> {
    const writes = changes.map(({ key, document }) => ({ key, text: JSON.stringify(document) }));
    await this.#root.childTransaction(() => {
      for (const { key, text } of writes) this.#root.putSync(key, text);
    });
  }

  async renew(): Promise<void> {}

  async claimAbove(generation: number): Promise<number> {
    return generation;
  }

  async close(): Promise<void> {
    await this.#root.close();
  }
}
