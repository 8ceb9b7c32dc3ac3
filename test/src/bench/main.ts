import { parseArgs } from "node:util";
import { benchAgents } from "./agents-bench.js";
import { benchCsi } from "./csi-bench.js";
import { benchData } from "./data/data-bench.js";
import { benchIdle } from "./idle-bench.js";
import { type Measurement, withinBudget } from "./measure.js";
import { benchMemory } from "./memory-bench.js";
import { benchMesh } from "./mesh-bench.js";
import { benchPage } from "./page-bench.js";
import { benchRegistry } from "./registry-bench.js";
import { benchStorm } from "./storm-bench.js";
import { benchTakeover } from "./takeover-bench.js";

type Bench = (report: (line: string) => void, options: { readonly agents: number }) => Promise<Measurement[]>;

const BENCHES: Readonly<Record<string, Bench>> = {
  registry: benchRegistry,
  mesh: benchMesh,
  memory: benchMemory,
  takeover: benchTakeover,
  idle: benchIdle,
  page: benchPage,
  storm: benchStorm,
  agents: benchAgents,
  csi: benchCsi,
  data: benchData,
};

// Benchmarks that run only when named, because each takes minutes: thousands of agents, and programs that a machine may
// lack.
const ONLY_BY_NAME = ["page", "storm", "agents", "csi", "data"];

const STORM_AGENTS = 10_000;

const USAGE = `npm run bench -- [--json] [--only ${Object.keys(BENCHES).join("|")}] [--agents N, of the storm, ${STORM_AGENTS} by default]`;

/** Prints progress to stderr, because stdout contains only the results. */
const report = (line: string) => void process.stderr.write(`bench: ${line}\n`);

function table(measurements: readonly Measurement[]): string {
  const rows = measurements.map((one) => {
    const budget =
      one.budget === undefined ? "" : "atLeast" in one.budget ? `>= ${one.budget.atLeast}` : `<= ${one.budget.atMost}`;
    const verdict = one.budget === undefined ? "" : withinBudget(one) ? "ok" : "MISSED";
    return [
      one.name,
      `${round(one.value)} ${one.unit}`,
      `${round(one.floor)} (${one.floorOf})`,
      one.ratio.toFixed(one.digits ?? 2),
      budget,
      verdict,
    ];
  });
  const all = [["name", "value", "floor", "ratio", "budget", ""], ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0))) ?? [];
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

const round = (value: number) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

function asJson(measurements: readonly Measurement[]): string {
  const byName = measurements.map(({ name, value, unit, floor, ratio }) => [name, { value, unit, floor, ratio }]);
  return JSON.stringify(Object.fromEntries(byName), null, 2);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: "boolean" },
      only: { type: "string" },
      agents: { type: "string" },
      help: { type: "boolean" },
    },
  });
  const chosen =
    values.only === undefined
      ? Object.keys(BENCHES)
          .filter((name) => !ONLY_BY_NAME.includes(name))
          .map((name) => BENCHES[name])
      : [BENCHES[values.only]];
  const agents = Number(values.agents ?? STORM_AGENTS);
  const isCount = Number.isInteger(agents) && agents >= 1;
  if (values.help || chosen.includes(undefined) || !isCount) {
    process.stderr.write(`${USAGE}\n`);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  const measurements: Measurement[] = [];
  for (const bench of chosen) measurements.push(...((await bench?.(report, { agents })) ?? []));
  process.stdout.write(`${values.json ? asJson(measurements) : table(measurements)}\n`);
}

await main();
