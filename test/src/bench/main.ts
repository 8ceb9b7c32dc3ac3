import { parseArgs } from "node:util";
import { measureAgainst, takeTurns } from "./against.js";
import { startFailover } from "./failover.js";
import { startIdle, startStorm } from "./fleet.js";
import { type Bench, medians, type Round, roundText, type StartBench } from "./measure.js";
import { measureMemory } from "./memory.js";
import { startPairs } from "./pairs.js";
import { measureSpace } from "./space.js";
import { measureTakeover } from "./takeover.js";

const BENCHES: Readonly<Record<string, StartBench>> = {
  pairs: startPairs,
  idle: startIdle,
  storm: startStorm,
  memory: measureMemory,
  space: measureSpace,
  takeover: measureTakeover,
  failover: startFailover,
};

const USAGE = `npm run bench -- [--only ${Object.keys(BENCHES).join("|")}] [--against REV] [--json]`;

/** Prints progress to stderr, because stdout contains only the results. */
const report = (line: string) => void process.stderr.write(`bench: ${line}\n`);

async function measure(bench: Bench): Promise<Round> {
  const rounds: Round[] = [];
  for (let round = -bench.warmUpRounds; round < bench.rounds; round++) {
    report(roundText(round, bench));
    const measured = await bench.round();
    if (round >= 0) rounds.push(measured);
  }
  return medians(rounds);
}

const shown = (value: number) => (value >= 100 ? value.toFixed(0) : value.toFixed(2));

function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of rows)
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()}\n`,
    );
}

function print(round: Round): void {
  const rows = Object.entries(round).map(([name, { value, unit, floor }]) => {
    const ofFloor = floor === undefined ? [] : [shown(floor), (value / floor).toFixed(2)];
    return [name, `${shown(value)} ${unit}`, ...ofFloor];
  });
  printTable([["name", "value", "floor", "ratio"], ...rows]);
}

function printRatios(now: Round, then: Round, revision: string): void {
  const rows = Object.entries(now).map(([name, { value, unit }]) => {
    const former = then[name]?.value ?? Number.NaN;
    return [name, `${shown(value)} ${unit}`, `${shown(former)} ${unit}`, (value / former).toFixed(2)];
  });
  printTable([["name", "now", revision, "ratio"], ...rows]);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      against: { type: "string" },
      json: { type: "boolean" },
      turns: { type: "boolean" },
      help: { type: "boolean" },
    },
  });
  const names = values.only === undefined ? Object.keys(BENCHES) : [values.only];
  if (values.help || !names.every((name) => Object.hasOwn(BENCHES, name))) {
    process.stderr.write(`${USAGE}\n`);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  const start = (name: string) => (BENCHES[name] as StartBench)(report);
  if (values.turns) return takeTurns(() => start(names[0] ?? ""));
  let [now, then]: [Round, Round] = [{}, {}];
  if (values.against === undefined)
    for (const name of names) {
      await using bench = await start(name);
      now = { ...now, ...(await measure(bench)) };
    }
  else [now, then] = await measureAgainst(values.against, names, report);
  if (values.json)
    process.stdout.write(`${JSON.stringify(values.against === undefined ? now : { now, then }, null, 2)}\n`);
  else if (values.against === undefined) print(now);
  else printRatios(now, then, values.against);
}

await main();
