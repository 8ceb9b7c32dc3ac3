import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Device, schema } from "@diskmesh/disk-registry/simulation";
import {
  type OnDocument,
  openStorage,
  type StoredChange,
  type Table,
  Tablet,
  type TabletStorage,
} from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { device, deviceIdOf } from "./devices.js";
import { BareLog } from "./floors.js";
import { compared, drainRatePerSecond, type Measurement, measurement } from "./measure.js";

const DEVICES = 200_000;
const LOADS = 5;
const COMMIT_ROUNDS = 7;
const COMMITS_PER_ROUND = 6_400;
/** Concurrent callers, whose transactions share commits as in a busy service. */
const CALLERS = 64;

type RegistrySchema = typeof schema;
type RegistryTablet = Tablet<RegistrySchema>;

/** The registry's tables without checks of their documents. */
const bareSchema = Object.fromEntries(
  Object.entries(schema as unknown as Record<string, Table<object>>).map(([name, { check: _, ...rest }]) => [
    name,
    rest,
  ]),
) as unknown as RegistrySchema;

/** Measures the cost of checking each device at load and at commit, for a registry with the embedded store. */
export async function benchChecks(): Promise<Measurement[]> {
  const folder = temporaryFolder();
  const openChecked = () =>
    Tablet.open({ name: "checked", schema, storage: openStorage(folder, "checked"), address: "" });
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
      name: "embedded_load_checked",
      value: loads[0],
      unit: "devices/s",
      floor: loads[1],
      floorOf: "the same registry without checksums and shapes",
      budget: { atLeast: 0.8 },
    }),
    measurement({
      name: `embedded_commit_checked_${CALLERS}_callers`,
      value: commits[0],
      unit: "transactions/s",
      floor: commits[1],
      floorOf: "the same registry without checksums and shapes",
      budget: { atLeast: 0.9 },
    }),
  ];
}

async function fill(tablet: RegistryTablet): Promise<void> {
  const step = 5_000;
  for (let first = 0; first < DEVICES; first += step)
    await tablet.transact(({ devices }) => {
      for (let index = first; index < first + step; index++) devices.put(device(index));
    });
}

function loadRate(openIt: () => Promise<RegistryTablet>): () => Promise<number> {
  return async () => {
    const startedAtMs = performance.now();
    const tablet = await openIt();
    const tookMs = performance.now() - startedAtMs;
    await tablet.close();
    return (1_000 * DEVICES) / tookMs;
  };
}

function commitRate(tablet: RegistryTablet): () => Promise<number> {
  let next = 0;
  return () =>
    drainRatePerSecond({ concurrency: CALLERS, count: COMMITS_PER_ROUND }, () => {
      // Devices far apart, like those that real callers change.
      const id = deviceIdOf((next++ * 7_919) % DEVICES);
      return tablet.transact(({ devices }) => {
        const before = devices.get(id) as Device;
        devices.put({ ...before, generation: before.generation + 1 });
      });
    });
}

/** Storage that reads documents from lines of JSON without checking them. */
class BareStorage implements TabletStorage {
  #log: BareLog | undefined;

  constructor(private readonly folder: string) {}

  async claim() {
    this.#log = await BareLog.open(this.folder);
    return { tabletId: "bare", incarnation: "bare", parentIncarnations: [], generation: 1 };
  }

  async load(onDocument: OnDocument): Promise<void> {
    const latest = new Map<string, object>();
    for await (const line of createInterface({ input: createReadStream(join(this.folder, "bare")) }))
      for (const [key, document] of JSON.parse(line)) latest.set(key, document);
    for (const [key, document] of latest) onDocument("devices", key, { document, version: 1 });
  }

  async commit(changes: readonly StoredChange[]): Promise<void> {
    await this.#log?.append(`${JSON.stringify(changes.map(({ key, document }) => [key, document]))}\n`);
  }

  async renew(): Promise<void> {}

  async claimAbove(generation: number): Promise<number> {
    return generation;
  }

  async close(): Promise<void> {
    await this.#log?.[Symbol.asyncDispose]();
  }
}
