import { runAnySeed, type SimulationName } from "./run-any-seed.js";

/** A seed that broke a promise. */
export interface Failure {
  readonly simulation: SimulationName;
  readonly seed: number;
  /** Number of steps with faults. */
  readonly steps: number;
  readonly violation: string;
}

/** Granularity of the search for fewer steps. */
const FEWER_STEPS = 10;
/** Maximum printed lines. A longer history is reduced to lines about the failure, and then to its end. */
const LINES_SHOWN = 60;
const FAULTS_END = "all faults end";

export const reasonOf = ({ seed, steps, violation }: Failure): string =>
  `VIOLATION in seed ${seed} of ${steps} steps: ${violation}`;

/**
 * Returns the events that led to a failure, from the shortest failing run of the seed. `options` are those of the
 * failing run.
 */
export async function historyOf(found: Failure, options: string): Promise<string> {
  const { simulation, seed, steps, violation, lines } = await shortestOf(found);
  const read = linesToRead(lines, violation);
  return [
    `its shortest run that fails has ${steps} steps${violation === found.violation ? "" : `: ${violation}`}`,
    `${read.length} of the ${lines.length} lines of its trace: step, time in ms, what`,
    ...read,
    `all of them: npm run sim --${simulation === "copies" ? " --copies" : ""} --seed ${seed} --steps ${steps}${options} --trace`,
  ].join("\n");
}

/** Returns the run with the fewest steps with which the seed fails, for any reason. */
async function shortestOf(found: Failure): Promise<Failure & { readonly lines: readonly string[] }> {
  for (let steps = FEWER_STEPS; ; steps = Math.min(steps + FEWER_STEPS, found.steps)) {
    const { seed, violation, lines } = await runAnySeed(found.simulation, found.seed, steps);
    if (violation !== undefined) return { ...found, seed, steps, violation, lines };
    if (steps >= found.steps) throw new Error(`${reasonOf(found)}: and not when it is run again`);
  }
}

function linesToRead(lines: readonly string[], violation: string): readonly string[] {
  const telling = withoutRepeats(lines).filter((line) => !line.includes("Heartbeat"));
  if (telling.length <= LINES_SHOWN) return telling;
  const devices = violation.match(/\bh\d+-[a-z]\b/g) ?? [];
  const hosts = [...(violation.match(/\bh\d+\b/g) ?? []), ...devices.map((device) => device.replace(/-.*/, ""))];
  const disks = violation.match(/\bdisk-\d+\b/g) ?? [];
  // A new leader and a restored registry concern all names.
  const names = [...devices, ...hosts, ...disks, "leads as", "registry:", FAULTS_END, "VIOLATION"];
  const concerns = new RegExp(`(?<![\\w-])(?:${names.join("|")})(?![\\w-])`);
  return telling.filter((line) => concerns.test(line)).slice(-LINES_SHOWN);
}

/** Removes repetitions: without faults the same lines recur until the time limit. */
function withoutRepeats(lines: readonly string[]): readonly string[] {
  const end = lines.findIndex((line) => line.endsWith(FAULTS_END));
  if (end === -1) return lines;
  const calm = new Map<string, string>();
  for (const line of lines.slice(end)) {
    const text = line.replace(/^\S+ \S+ /, "");
    if (!calm.has(text)) calm.set(text, line);
  }
  return [...lines.slice(0, end), ...calm.values()];
}
