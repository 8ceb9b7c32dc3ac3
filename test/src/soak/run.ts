import { cpSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { Account } from "../kill-test/account.js";
import { Calls, HostCaller } from "../kill-test/callers.js";
import { converge, watchDescriptors } from "../kill-test/convergence.js";
import type { StoreName } from "../mesh/stores.js";
import { Random } from "../random.js";
import { mustConverge } from "./convergence.js";
import { FaultRunner } from "./fault-runner.js";
import { FAULTS, type Fault, OTHER_VERSION } from "./faults.js";
import { Measures } from "./measures.js";
import { cms, OPERATIONS, repairs } from "./operations/index.js";
import { prepare } from "./prepare.js";
import type { ProcessReport, SoakReport } from "./report.js";
import { growth, Resources, type Sample } from "./resources.js";
import { planFaults } from "./schedule.js";
import type { Operation, Soak } from "./soak.js";
import { SoakFleet } from "./soak-fleet.js";
import type { OwnExit } from "./supervised.js";
import { triedFor, underWay } from "./under-way.js";
import { Violations } from "./violations.js";

export interface SoakOptions {
  readonly totalMs: number;
  readonly seed: number;
  readonly store: StoreName;
  /** Maximum concurrent faults. */
  readonly lanes: number;
  /** Names of the kinds of faults to cause; empty for all. */
  readonly onlyFaults: readonly string[];
  readonly report: (line: string) => void;
  /** Folder for the report, and for the logs of a soak in which a promise was broken. */
  readonly folder: string;
}

/** Pause in ms in which caches, connections and memory settle. */
const REST_MS = 5_000;
/** Interval in ms at which unfinished work is printed after the last fault. */
const TELL_AFTER_MS = 20_000;
/** Offsets of the seeds, so that schedule, callers and operations have different ones. */
const SEEDS = { schedule: 1, callers: 1_000, operations: 100_000 } as const;

/** Runs all operations on a mesh while faults occur, and returns the results. */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const { seed, report, totalMs } = options;
  const startedAt = new Date().toISOString();
  const [measures, violations] = [new Measures(), new Violations(report)];
  const exits: (OwnExit & { excuse: string | undefined })[] = [];
  let runner: FaultRunner | undefined;
  const onOwnExit = (exit: OwnExit) => {
    const excuse = runner?.excuseOf(exit);
    exits.push({ ...exit, excuse });
    report(`${exit.name} ended by itself with ${exit.how}${excuse === undefined ? "" : `: ${excuse}`}`);
    if (excuse === undefined)
      violations.add(`no service exits by itself: ${exit.name}: ${exit.how}\n${exit.lastLines}`);
  };
  const fleet = await SoakFleet.start({ store: options.store, measures, onOwnExit });
  if (typeof fleet === "string") throw new Error(`${options.store} was not tested: ${fleet}`);
  let [isOver, isDone] = [false, false];
  const hasOnlyRestarts = options.onlyFaults.length > 0 && options.onlyFaults.every((name) => name === OTHER_VERSION);
  const soak: Soak = { fleet, measures, violations, hasOnlyRestarts, isOver: () => isOver };
  try {
    await prepare(soak);
    using resources = new Resources(() => fleet.pids());
    await delay(Math.min(REST_MS, totalMs / 10));
    const atFirst = resources.look();
    const faults = chosenFaults(fleet, options.onlyFaults);
    for (const { name, skipped } of faults) if (skipped !== undefined) report(`skipped: ${name}: ${skipped}`);
    const plan = planFaults({
      faults: faults
        .filter(({ skipped }) => skipped === undefined)
        .map(({ fault }) => ({ name: fault.name, lengthMs: fault.lengthMs, targets: fault.targets(fleet) })),
      totalMs,
      lanes: options.lanes,
      random: new Random(seed + SEEDS.schedule),
    });
    runner = new FaultRunner(fleet, FAULTS, violations, report);
    const account = new Account(fleet.cmsDevices);
    const calls = new Calls();
    const automation = { clients: fleet.clients, device: (id: string) => fleet.mesh.device(id) };
    const callers = fleet.cmsHosts.map(
      (hostId, index) => new HostCaller(automation, account, hostId, new Random(seed * SEEDS.callers + index), calls),
    );
    using watching = watchDescriptors(fleet.mesh, account, fleet.cmsHosts);
    report(`${fleet.store.title}: ${plan.length} faults in ${Math.round(totalMs / 1_000)} s, seed ${seed}`);
    const work = Promise.all(operate(soak, [...OPERATIONS, cms(callers, account)], seed * SEEDS.operations));
    // Repairs drives until the end, because unfinished work may wait for one.
    const repairing = Promise.all(operate({ ...soak, isOver: () => isDone }, [repairs], seed));
    await Promise.all([runner.run(plan), delay(totalMs)]);
    isOver = true;
    report("no more faults; what was begun comes to its end");
    const endedAtMs = performance.now();
    const telling = setInterval(() => {
      for (const line of triedFor(TELL_AFTER_MS)) report(`still tries: ${line}`);
    }, TELL_AFTER_MS);
    try {
      await work;
      isDone = true;
      await repairing;
      await underWay("convergence of CMS hosts", () => converge(fleet.mesh, account, fleet.cmsHosts, callers));
      await mustConverge(soak);
    } finally {
      clearInterval(telling);
    }
    for (const text of account.violations) violations.add(`CMS: ${text}`);
    const convergedMs = Math.round(performance.now() - endedAtMs);
    await delay(REST_MS);
    const inTheEnd = resources.look();
    for (const text of growth(atFirst, inTheEnd)) violations.add(`memory and descriptors: ${text}`);
    return {
      startedAt,
      store: fleet.store.title,
      seed,
      totalMs,
      convergedMs,
      operations: measures.figures,
      errors: measures.errors,
      faults: countFaults(faults, runner),
      hadFaults: runner.had,
      exits,
      descriptorChecks: watching.checks,
      violations: violations.all,
      processes: processReports(fleet, resources, atFirst, inTheEnd),
      samples: resources.samples,
    };
  } finally {
    if (violations.all.length > 0) keepLogs(fleet.mesh.folder, options.folder);
    await fleet[Symbol.asyncDispose]();
  }
}

interface Chosen {
  readonly name: string;
  readonly fault: Fault;
  readonly skipped: string | undefined;
}

function chosenFaults(fleet: SoakFleet, only: readonly string[]): Chosen[] {
  return FAULTS.map((fault) => ({
    name: fault.name,
    fault,
    skipped: only.length > 0 && !only.includes(fault.name) ? "not asked for" : fault.possible(fleet),
  }));
}

function countFaults(faults: readonly Chosen[], runner: FaultRunner): SoakReport["faults"] {
  return faults.map(({ name, skipped }) => ({
    name,
    count: runner.had.filter(({ fault }) => fault === name).length,
    targets: new Set(runner.had.filter(({ fault }) => fault === name).map(({ target }) => target)).size,
    skipped,
  }));
}

/** Starts all workers of all operations. Each repeats its operation until the soak is over. */
function operate(soak: Soak, operations: readonly Operation[], seed: number): Promise<void>[] {
  return operations.flatMap((operation, kind) =>
    Array.from({ length: operation.workers }, async (_, index) => {
      const random = new Random(seed + kind * 100 + index);
      for (let round = 0; !soak.isOver(); round++) {
        try {
          await soak.measures.time(operation.name, () => operation.run(soak, { slot: index + 1, round, random }));
        } catch (error) {
          soak.violations.add(`${operation.name}: ${messageOf(error)}`);
        }
      }
    }),
  );
}

function processReports(fleet: SoakFleet, resources: Resources, first: Sample, last: Sample): ProcessReport[] {
  const { peaks } = resources;
  return [...fleet.supervised].map(([name, { starts }]) => ({
    name,
    starts,
    atFirst: first.processes[name],
    peak: peaks.get(name),
    inTheEnd: last.processes[name],
  }));
}

function keepLogs(from: string, folder: string): void {
  mkdirSync(join(folder, "logs"), { recursive: true });
  for (const name of readdirSync(from))
    if (/\.(?:log|yaml)$/.test(name)) cpSync(join(from, name), join(folder, "logs", name));
}

/** Writes the complete report as JSON. */
export function writeReport(report: SoakReport, folder: string): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "report.json");
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
  return file;
}
