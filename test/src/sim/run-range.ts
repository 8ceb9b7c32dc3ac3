import { type ChildProcess, fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { Failure } from "./failure.js";
import type { ChunkOrder, ChunkReport } from "./range-worker.js";
import { sumOf } from "./seed/seed-result.js";

const CHUNK_SEEDS = 20;
/** Maximum printed violations; further ones are counted only. */
const SHOWN_VIOLATIONS = 5;

/** Options for many short-lived objects, and for errors whose stacks are not used. */
const NODE_OPTIONS = ["--max-semi-space-size=32", "--single-threaded-gc", "--stack-trace-limit=0"];

/** Runs seeds on all cores. Prints the reason of each failure, and then the history of the first. */
export async function runRange({ simulation, from, to, steps }: ChunkOrder): Promise<void> {
  const startedMs = performance.now();
  const failed: Failure[] = [];
  let next = from;
  let simulatedMs = 0;
  let counts: ChunkReport["done"] = {};
  const take = (): ChunkOrder | undefined => {
    if (next > to || failed.length >= SHOWN_VIOLATIONS) return undefined;
    const order = { simulation, from: next, to: Math.min(to, next + CHUNK_SEEDS - 1), steps };
    next = order.to + 1;
    return order;
  };
  const done = (report: ChunkReport): void => {
    simulatedMs += report.simulatedMs;
    counts = sumOf(counts, report.done);
    failed.push(...report.failed);
  };
  const count = Math.min(availableParallelism(), Math.ceil((to - from + 1) / CHUNK_SEEDS));
  await Promise.all(Array.from({ length: count }, () => runWorker(take, done)));
  const seconds = (performance.now() - startedMs) / 1000;
  const ran = next - from;
  await printFailures(failed.sort((a, b) => a.seed - b.seed));
  process.stdout.write(
    `${ran} seeds (${from}..${next - 1}) of ${steps} steps in ${seconds.toFixed(1)} s: ${(ran / seconds).toFixed(0)} seeds/s on ${count} cores, ${(simulatedMs / 1000 / seconds).toFixed(0)} simulated seconds a second\n`,
  );
  const told = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
  process.stdout.write(`${told.join(", ")}\n`);
  if (failed.length === 0) process.stdout.write("no violation\n");
}

async function printFailures(failed: readonly Failure[]): Promise<void> {
  const [first] = failed;
  if (first === undefined) return;
  process.exitCode = 1;
  const { historyOf, reasonOf } = await import("./failure.js");
  for (const failure of failed) process.stdout.write(`${reasonOf(failure)}\n`);
  process.stdout.write(`seed ${first.seed}: ${await historyOf(first, "")}\n`);
}

async function runWorker(take: () => ChunkOrder | undefined, done: (report: ChunkReport) => void): Promise<void> {
  const worker = fork(fileURLToPath(new URL("./range-worker.js", import.meta.url)), { execArgv: NODE_OPTIONS });
  try {
    for (let order = take(); order !== undefined; order = take()) done(await ask(worker, order));
  } finally {
    worker.disconnect();
  }
}

function ask(worker: ChildProcess, order: ChunkOrder): Promise<ChunkReport> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null): void =>
      reject(new Error(`a worker ended with code ${code} in seeds ${order.from}..${order.to}`));
    worker.once("exit", onExit);
    worker.once("message", (report) => {
      worker.off("exit", onExit);
      resolve(report as ChunkReport);
    });
    worker.send(order);
  });
}
