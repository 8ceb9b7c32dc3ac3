import { join } from "node:path";
import { parseArgs } from "node:util";
import { fetchDocumentDatabase } from "@diskmesh/tablet/testing";
import { STORE_NAMES, type StoreName } from "../mesh/stores.js";
import { isIsolated, isolationProblem } from "../namespaces/isolation.js";
import { repositoryFolder } from "../repository-folder.js";
import { buildLastRelease, FAULTS, OTHER_VERSION } from "./faults.js";
import { runIsolated } from "./isolated-soak.js";
import { tables } from "./report.js";
import { runSoak, writeReport } from "./run.js";

const FAULT_NAMES = FAULTS.map(({ name }) => name);
const USAGE = [
  `npm run soak -- [--minutes N] [--seed S] [--store ${STORE_NAMES.join("|")}] [--lanes N] [--report FOLDER]`,
  `[--faults NAME,...] of: ${FAULT_NAMES.join(", ")}`,
].join("\n  ");

/** A database on another machine, which would be unreachable from a network namespace. */
const databaseElsewhere = process.env.DISKMESH_TEST_MONGODB_URL;

function number(name: string, text: string | undefined, fallback: number, isAllowed: (value: number) => boolean) {
  const value = text === undefined ? fallback : Number(text);
  if (Number.isFinite(value) && isAllowed(value)) return value;
  throw new Error(`--${name} is ${text}: give a number above 0`);
}

function namesOf<Name extends string>(option: string, text: string | undefined, known: readonly Name[]): Name[] {
  if (text === undefined) return [];
  return text.split(",").map((name) => {
    const found = known.find((one) => one === name);
    if (found === undefined) throw new Error(`--${option} is ${text}: give of ${known.join(", ")}`);
    return found;
  });
}

function parse() {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string" },
      seed: { type: "string" },
      store: { type: "string" },
      lanes: { type: "string" },
      faults: { type: "string" },
      report: { type: "string" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return undefined;
  const isWhole = (value: number) => Number.isSafeInteger(value) && value >= 1;
  const stores = namesOf("store", values.store, STORE_NAMES);
  return {
    minutes: number("minutes", values.minutes, 10, (value) => value > 0),
    seed: number("seed", values.seed, Math.floor(Math.random() * 1_000_000) + 1, isWhole),
    stores: stores.length > 0 ? stores : STORE_NAMES,
    lanes: number("lanes", values.lanes, 2, isWhole),
    faults: namesOf("faults", values.faults, FAULT_NAMES),
    folder: values.report ?? join(repositoryFolder, ".cache/soak", new Date().toISOString().replaceAll(":", "-")),
  };
}

type Options = NonNullable<ReturnType<typeof parse>>;

const print = (line: string) => void process.stdout.write(`soak: ${new Date().toISOString().slice(11, 19)} ${line}\n`);

/** Runs a soak on each store, one after another, in separate namespaces where the machine allows them. */
async function runAll(options: Options): Promise<boolean> {
  if (options.stores.includes("mongodb")) await fetchDocumentDatabase();
  if (options.faults.includes(OTHER_VERSION)) await buildLastRelease();
  const problem = isolationProblem();
  let wentWell = true;
  for (const store of options.stores) {
    const shares = problem ?? (store === "mongodb" && databaseElsewhere ? "the database is elsewhere" : undefined);
    if (shares === undefined) wentWell = (await runIsolated(argumentsFor(options, store))) === 0 && wentWell;
    else wentWell = (await runOn(store, options)) && wentWell;
  }
  return wentWell;
}

function argumentsFor({ minutes, seed, lanes, faults, folder }: Options, store: StoreName): string[] {
  const some = { minutes, seed, lanes, store, report: folder, ...(faults.length > 0 ? { faults } : {}) };
  return Object.entries(some).flatMap(([name, value]) => [`--${name}`, `${value}`]);
}

/** Returns whether every promise was kept. */
async function runOn(store: StoreName, options: Options): Promise<boolean> {
  const folder = join(options.folder, store);
  const { seed, lanes, faults: onlyFaults } = options;
  const totalMs = options.minutes * 60_000;
  const report = await runSoak({ totalMs, seed, store, lanes, onlyFaults, report: print, folder });
  process.stdout.write(`\n${tables(report)}\n\n`);
  print(`the whole report: ${writeReport(report, folder)}`);
  const isWell = report.violations.length === 0;
  print(isWell ? "every promise was kept" : `failed; --store ${store} --seed ${seed} makes the same choices again`);
  return isWell;
}

// process.exit runs the handlers that end started processes and remove mounts.
process.once("SIGINT", () => process.exit(130));

try {
  const options = parse();
  if (options === undefined) process.stdout.write(`${USAGE}\n`);
  else {
    const [store] = options.stores;
    const wentWell = isIsolated && store !== undefined ? await runOn(store, options) : await runAll(options);
    // Exits explicitly, because handles that a failed soak left open would keep the process running.
    process.exit(wentWell ? 0 : 1);
  }
} catch (error) {
  process.stderr.write(`soak: ${error instanceof Error ? error.stack : error}\n${USAGE}\n`);
  process.exit(2);
}
