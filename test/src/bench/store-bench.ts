import { randomUUID } from "node:crypto";
import { openStorage } from "@diskmesh/tablet";
import {
  databaseUrl,
  documentDatabase,
  newTabletName,
  removeTablet,
  TrackedStorage,
  withDatabase,
} from "@diskmesh/tablet/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { benchChecks } from "./checks-bench.js";
import { BareLog } from "./floors.js";
import { type Measurement, measurement } from "./measure.js";
import { benchTakeover } from "./takeover-bench.js";

const ROUNDS = 3;
const COMMITS_PER_ROUND = 300;
const KEYS = 1_000;

/** Performs a durable write of a small document. */
type Write = (index: number) => Promise<unknown>;

const document = (index: number) => ({ id: `d${index % KEYS}`, n: index, text: "x".repeat(300) });

/** Measures sequential commits of one document in both stores, the cost of checks, and the duration of a takeover. */
export async function benchStore(report: (line: string) => void): Promise<Measurement[]> {
  report("commits in the embedded store beside bare synced appends");
  const measurements = await benchEmbedded();
  report("loads and commits in the embedded store with every check beside the same without");
  measurements.push(...(await benchChecks()));
  const database = await documentDatabase();
  if (typeof database === "string") {
    report(`NOT MEASURED: mongo_commit_* and takeover_time, since ${database}`);
    return measurements;
  }
  report(`commits in ${database.title} beside bare inserts`);
  measurements.push(...(await benchMongo(databaseUrl(database.url), database.title)));
  report("the takeover of a registry that was killed");
  measurements.push(await benchTakeover(databaseUrl(database.url), report));
  return measurements;
}

async function benchEmbedded(): Promise<Measurement[]> {
  const folder = temporaryFolder();
  await using bare = await BareLog.open(folder);
  return await benchCommits("embedded", "bare append, fdatasync", folder, "bench", (index) =>
    bare.append(`${JSON.stringify(document(index))}\n`),
  );
}

async function benchMongo(url: string, title: string): Promise<Measurement[]> {
  const [tabletName, bareName] = [newTabletName(), newTabletName()];
  try {
    return await withDatabase(url, (bare) => {
      const collection = bare.collection<{ _id: string }>(`${bareName}.inserts`);
      const writeConcern = { w: "majority", journal: true } as const;
      return benchCommits("mongo", `bare insert, ${title}`, url, tabletName, (index) =>
        collection.insertOne({ _id: `${index}`, ...document(index) }, { writeConcern }),
      );
    });
  } finally {
    for (const name of [tabletName, bareName]) await removeTablet(url, name);
  }
}

async function benchCommits(
  store: string,
  floorOf: string,
  url: string,
  tabletName: string,
  bareWrite: Write,
): Promise<Measurement[]> {
  const storage = new TrackedStorage(openStorage(url, tabletName));
  try {
    await storage.claim({ writer: randomUUID(), address: "" });
    await storage.load();
    const commit: Write = (index) =>
      storage.commit([{ table: "devices", key: document(index).id, document: document(index) }]);
    const [commits, bareWrites] = await latenciesInTurns(commit, bareWrite);
    const one = (name: string, unit: string, of: (latenciesMs: readonly number[]) => number): Measurement =>
      measurement({
        name: `${store}_commit_${name}`,
        value: of(commits),
        unit,
        floor: of(bareWrites),
        floorOf,
        budget: undefined,
      });
    return [
      one("rate", "commits/s", (latenciesMs) => (1_000 * latenciesMs.length) / sum(latenciesMs)),
      one("p50", "ms", (latenciesMs) => percentile(latenciesMs, 0.5)),
      one("p99", "ms", (latenciesMs) => percentile(latenciesMs, 0.99)),
    ];
  } finally {
    await storage.close({ handOver: true });
  }
}

/**
 * Measures two kinds of writes alternately, so that a temporary slowdown of the machine affects both. The first round
 * is a warm-up and does not count.
 */
async function latenciesInTurns(...writes: readonly [Write, Write]): Promise<readonly [number[], number[]]> {
  const latenciesMs: readonly [number[], number[]] = [[], []];
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [which, write] of writes.entries()) {
      for (let index = 0; index < COMMITS_PER_ROUND; index++) {
        const startMs = performance.now();
        await write(round * COMMITS_PER_ROUND + index);
        if (round > 0) latenciesMs[which]?.push(performance.now() - startMs);
      }
    }
  }
  return latenciesMs;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
