import { parseArgs } from "node:util";
import { makeReady, switchOn } from "./mutation-switch.js";
import { findMutation, MUTATIONS } from "./mutations.js";

const DEFAULT_STEPS = 300;
const DEFAULT_SEEDS = "1..1000";

const usage = `usage: npm run sim -- [--seeds A..B | --seed N] [--steps N] [--trace] [--mutate NAME|all] [--copies]
       npm run sim -- --list-mutations

Runs the registry's and the agents' own code under a simulated clock, network, disks and store, once per seed.
  --seeds A..B       the seeds, ${DEFAULT_SEEDS} unless given
  --seed N           one seed
  --steps N          steps under faults per seed, ${DEFAULT_STEPS} unless given; then everything must converge
  --trace            print the trace of a seed that breaks no promise too
  --mutate NAME      with that mistake made in the code; ends at the first seed that finds it
  --mutate all       with each mistake in turn; fails when one is not found within the seeds that it states
  --copies           the protocol of disks with several copies, in a simulator of its own
  --list-mutations   the mistakes, one a line
`;

function parseWhole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new Error(`${name} is ${JSON.stringify(text)}: give a whole number`);
}

function parseSeeds(text: string): { from: number; to: number } {
  const [from = "", to = "", ...rest] = text.split("..");
  const seeds = { from: parseWhole("--seeds", from), to: parseWhole("--seeds", to) };
  if (rest.length > 0 || seeds.from > seeds.to) throw new Error(`--seeds is ${JSON.stringify(text)}: give A..B`);
  return seeds;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seeds: { type: "string", default: DEFAULT_SEEDS },
      seed: { type: "string" },
      steps: { type: "string", default: String(DEFAULT_STEPS) },
      trace: { type: "boolean", default: false },
      mutate: { type: "string" },
      copies: { type: "boolean", default: false },
      "list-mutations": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return void process.stdout.write(usage);
  if (values["list-mutations"]) {
    for (const { name, withinSeeds, mistake } of MUTATIONS)
      process.stdout.write(`${name.padEnd(26)} within ${String(withinSeeds).padStart(4)} seeds: ${mistake}\n`);
    return;
  }
  const steps = parseWhole("--steps", values.steps);
  const { from, to } = values.seed === undefined ? parseSeeds(values.seeds) : only(parseWhole("--seed", values.seed));
  const isOne = values.mutate !== undefined && values.mutate !== "all";
  const mutation = isOne ? findMutation(values.mutate ?? "") : undefined;
  const simulation = mutation?.simulation ?? (values.copies ? "copies" : "mesh");
  if (values.mutate === "all") {
    const mutations = MUTATIONS.filter((each) => (each.simulation ?? "mesh") === simulation);
    makeReady(mutations);
    const { findEach } = await import("./run-in-order.js");
    return findEach(mutations, steps);
  }
  if (mutation !== undefined) {
    makeReady([mutation]);
    switchOn(mutation);
  }
  if (mutation !== undefined || from === to) {
    // Imports the module late, because it loads modules that a mutation replaces.
    const { runInOrder } = await import("./run-in-order.js");
    return runInOrder({ from, to, steps, trace: values.trace, mutation, simulation });
  }
  const { runRange } = await import("./run-range.js");
  await runRange({ simulation, from, to, steps });
}

const only = (seed: number): { from: number; to: number } => ({ from: seed, to: seed });

try {
  await main();
} catch (error) {
  process.stderr.write(`sim: ${error instanceof Error ? error.message : String(error)}\n${usage}`);
  process.exitCode = 2;
}
