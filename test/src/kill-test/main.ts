import { parseArgs } from "node:util";
import { openStore, STORE_NAMES, type Store, type StoreName } from "../mesh/stores.js";
import { LEASE_MS, runTakeovers } from "../takeover/run.js";
import type { StormOptions } from "../takeover/storm.js";
import { runKillTest } from "./run.js";

/** Kinds of tests: registries and agents are killed during adds and removes, or directors and dispatchers during tasks. */
const KILLED = ["registries", "directors"] as const;

const USAGE = `npm run kill-test -- [--only ${KILLED.join("|")}] [--store ${STORE_NAMES.join("|")}] [--seed S]
  registries: [--seconds N] [--hosts N] [--devices N]
  directors:  [--kills N] [--pauses N]`;

/** Load while directors are killed. */
const TASKS = { targets: 10, provides: 100, detaches: 50, instances: 50 };
/** Maximum time in ms beyond the lease in which no director answers. */
const BEYOND_LEASE_MS = 2_000;

function whole(name: string, text: string | undefined, fallback: number): number {
  const value = text === undefined ? fallback : Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new Error(`--${name} is ${text}: give a whole number from 1`);
}

/** Returns the requested entry, or all of them. */
function oneOrAll<Name extends string>(
  option: string,
  text: string | undefined,
  all: readonly Name[],
): readonly Name[] {
  if (text === undefined) return all;
  const named = all.filter((name) => name === text);
  if (named.length === 0) throw new Error(`--${option} is ${text}: give ${all.join(" or ")}`);
  return named;
}

type Killing = Pick<StormOptions, "kills" | "pauses" | "dispatcherKills" | "seed" | "report">;

const report = (line: string) => void process.stdout.write(`kill-test: ${line}\n`);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string" },
      seed: { type: "string" },
      hosts: { type: "string" },
      devices: { type: "string" },
      store: { type: "string" },
      only: { type: "string" },
      kills: { type: "string" },
      pauses: { type: "string" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return void process.stdout.write(`${USAGE}\n`);
  const options = {
    seconds: whole("seconds", values.seconds, 120),
    seed: whole("seed", values.seed, Math.floor(Math.random() * 1_000_000) + 1),
    hosts: whole("hosts", values.hosts, 3),
    devicesPerHost: whole("devices", values.devices, 6),
  };
  const { seed } = options;
  const kills = whole("kills", values.kills, 20);
  const killing = { seed, kills, dispatcherKills: kills, pauses: whole("pauses", values.pauses, 5), report };
  const only = oneOrAll("only", values.only, KILLED);
  for (const name of oneOrAll("store", values.store, STORE_NAMES)) {
    if (only.includes("registries")) await onStore(name, (store) => killRegistries(store, options));
    // Two directors need a store that they share; crash-test kills one with a folder.
    if (only.includes("directors") && name === "mongodb") await onStore(name, (store) => killDirectors(store, killing));
  }
}

/** Runs a test on a store; a broken promise makes the exit code 1. */
async function onStore(name: StoreName, run: (store: Store) => Promise<boolean>): Promise<void> {
  const store = await openStore(name);
  if (typeof store === "string")
    throw new Error(`${name} was not tested: ${store}; --store embedded tests the other alone`);
  try {
    if (!(await run(store))) process.exitCode = 1;
  } finally {
    await store.remove();
  }
}

/** Returns whether every promise was kept. */
async function killDirectors(store: Store, killing: Killing): Promise<boolean> {
  report(`${store.title}: ${killing.kills} kills and ${killing.pauses} pauses of the director that leads`);
  const { unansweredMs, rounds, repeated, possibleOrphans, violations, kills } = await runTakeovers(store, {
    ...TASKS,
    ...killing,
  });
  const longestMs = Math.max(...unansweredMs);
  const limitMs = LEASE_MS + BEYOND_LEASE_MS;
  const late = unansweredMs.filter((ms) => ms > limitMs).length;
  const medianMs = unansweredMs.toSorted((a, b) => a - b)[Math.floor(unansweredMs.length / 2)];
  const limit = `limit ${limitMs}: the lease time of ${LEASE_MS}, and ${BEYOND_LEASE_MS}`;
  report(
    `${kills.directors} kills, ${kills.pauses} pauses, ${kills.dispatchers} kills of dispatchers, ${rounds} rounds; no ` +
      `director answered for ${medianMs} ms (median), ${longestMs} ms (longest; ${limit}); ${repeated.calls} calls and ` +
      `${repeated.requests} requests repeated; ${possibleOrphans} possible orphans listed`,
  );
  for (const violation of violations) report(`VIOLATION: ${violation}`);
  // Late answers are only reported, because a busy machine can delay anything.
  if (late > 0) report(`${late} times it took longer than the limit of ${limitMs} ms`);
  return violations.length === 0;
}

/** Returns whether every promise was kept. */
async function killRegistries(
  store: Store,
  options: { seconds: number; seed: number; hosts: number; devicesPerHost: number },
): Promise<boolean> {
  const { name } = store;
  if (name === "mongodb" && store.database === undefined)
    report(`${store.title} is not this test's own: it is not killed`);
  const result = await runKillTest({ ...options, store, report });
  report(
    `${result.calls.retried} calls repeated; ${result.descriptorChecks} looks at descriptors of what was let go of; ` +
      `${result.diskReads} of disks`,
  );
  for (const violation of result.violations) report(`VIOLATION: ${violation}`);
  const failed = result.violations.length > 0;
  report(
    failed
      ? `failed; --store ${name} --seed ${options.seed} makes the same choices again`
      : `nothing acknowledged was lost; all as it was told ${Math.round(result.convergedMs)} ms after the last kill`,
  );
  return !failed;
}

try {
  await main();
} catch (error) {
  process.stderr.write(`kill-test: ${error instanceof Error ? error.message : error}\n${USAGE}\n`);
  process.exitCode = 2;
}
