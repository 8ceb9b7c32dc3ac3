import { readdirSync, readFileSync } from "node:fs";
import { collectGarbage } from "@diskmesh/testkit";

/** A measured value. */
interface Value {
  readonly value: number;
  readonly unit: string;
  /** Value of the same round without diskmesh, in the same unit. */
  readonly floor?: number;
}

/** The values of a round, by name. */
export type Round = Readonly<Record<string, Value>>;

/** Numbers of rounds. */
export interface Counts {
  /** Rounds that are not counted, in which V8 compiles the code. */
  readonly warmUpRounds: number;
  readonly rounds: number;
}

/** Something that is measured in rounds. */
export interface Bench extends AsyncDisposable, Counts {
  round(): Promise<Round>;
}

/** Names a round; those of the warm-up are negative. */
export function roundText(round: number, { warmUpRounds, rounds }: Counts): string {
  return round < 0 ? `warm-up round ${warmUpRounds + round + 1} of ${warmUpRounds}` : `round ${round + 1} of ${rounds}`;
}

/** Starts what a bench measures; `report` prints its progress. */
export type StartBench = (report: (line: string) => void) => Promise<Bench>;

/** Returns a bench of a single round that leaves nothing behind. */
export function once(round: (report: (line: string) => void) => Promise<Round>): StartBench {
  return async (report) => ({
    warmUpRounds: 0,
    rounds: 1,
    round: () => round(report),
    [Symbol.asyncDispose]: async () => {},
  });
}

/** Returns the median of each value and of each floor. */
export function medians(rounds: readonly Round[]): Round {
  const [first = {}] = rounds;
  const of = (name: string, field: "value" | "floor") =>
    median(rounds.map((round) => round[name]?.[field] ?? Number.NaN));
  const entries = Object.entries(first).map(([name, { unit, floor }]): [string, Value] => [
    name,
    { value: of(name, "value"), unit, ...(floor !== undefined && { floor: of(name, "floor") }) },
  ]);
  return Object.fromEntries(entries);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/**
 * Returns the CPU time in ms of all present threads of a process. Reads the scheduler's counters, because clock ticks
 * are too coarse.
 */
export function cpuTimeMs(pid: number): number {
  const folder = `/proc/${pid}/task`;
  const ofThread = (thread: string): number =>
    Number(readFileSync(`${folder}/${thread}/schedstat`, "utf8").split(" ")[0]);
  return readdirSync(folder).reduce((sumNs, thread) => sumNs + ofThread(thread), 0) / 1e6;
}

/** Returns the share of a core that a process takes while `work` runs, in percent. */
export async function corePercent(pid: number, work: () => Promise<unknown>): Promise<number> {
  const [cpuBeforeMs, beganAtMs] = [cpuTimeMs(pid), performance.now()];
  await work();
  return (100 * (cpuTimeMs(pid) - cpuBeforeMs)) / (performance.now() - beganAtMs);
}

/** Returns the size of this process's heap without unreachable objects. */
export function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
