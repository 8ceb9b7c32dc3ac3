import { setTimeout as sleep } from "node:timers/promises";
import { type Task, TaskState } from "@diskmesh/api/director";
import { DomainError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { Random } from "../random.js";
import type { FileFleet } from "./file-fleet.js";
import { type Kills, killDirectors, killDispatchers, watchAnswers } from "./killing.js";
import { violationsOf } from "./verdict.js";

export interface StormOptions {
  readonly fleet: FileFleet;
  /** Number of concurrent provides, repeated until all kills are done. */
  readonly provides: number;
  readonly detaches: number;
  readonly instances: number;
  /** Number of VMs to which disks are attached. */
  readonly targets: number;
  /** Number of faults of the leader: SIGKILL, and SIGSTOP until another director leads. */
  readonly kills: number;
  readonly pauses: number;
  readonly dispatcherKills: number;
  readonly seed: number;
  readonly report: (line: string) => void;
}

export interface StormResult {
  readonly violations: readonly string[];
  readonly kills: Kills;
  /** Longest time in ms without an answer of any director, for each fault. */
  readonly unansweredMs: readonly number[];
  readonly rounds: number;
  /** Calls that were repeated because no answer came, and requests that were repeated because their task failed. */
  readonly repeated: { calls: number; requests: number };
  /** Number of possible orphans: objects that the CPI may have created without a record. */
  readonly possibleOrphans: number;
}

/** Timeout in ms on a busy machine. */
const PATIENCE_MS = 600_000;
const AGAIN_MS = 200;
const LOOK_MS = 200;

/** Callers that repeat until their request is done: start a task, follow it, and start another one when it failed. */
class Callers {
  readonly repeated = { calls: 0, requests: 0 };

  constructor(
    private readonly fleet: FileFleet,
    private readonly targets: readonly string[],
  ) {}

  provide(diskName: string, target: number): Promise<void> {
    const instanceId = this.targets[target % this.targets.length] ?? "";
    const request = { diskName, instanceId, diskPoolName: "fast", sizeBytes: 1024 * 1024 };
    return this.#ask(`provide ${diskName}`, () => this.fleet.mesh.clients.disks.provideDynamicDisk(request));
  }

  detach(diskName: string): Promise<void> {
    return this.#ask(`detach ${diskName}`, () => this.fleet.mesh.clients.disks.detachDynamicDisk({ diskName }));
  }

  deploy(name: string, instances: number): Promise<void> {
    return this.#ask(`deploy ${name}`, () => this.fleet.deploy(name, instances));
  }

  deleteDeployment(deployment: string): Promise<void> {
    const ask = () => this.fleet.mesh.clients.deployments.deleteDeployment({ deployment });
    return this.#ask(`delete ${deployment}`, ask);
  }

  async #ask(what: string, request: () => Promise<{ readonly task?: Task | undefined }>): Promise<void> {
    const untilMs = performance.now() + PATIENCE_MS;
    while (performance.now() < untilMs) {
      const { task } = await this.#answered(untilMs, request);
      const ended = await this.#ended(task, untilMs);
      if (ended?.state === TaskState.DONE) return;
      this.repeated.requests++;
    }
    throw new Error(`${what} was asked for in vain`);
  }

  async #ended(task: Task | undefined, untilMs: number): Promise<Task | undefined> {
    for (let seen = task; ; ) {
      if (seen === undefined || seen.endTime !== undefined) return seen;
      const { taskId } = seen;
      await sleep(LOOK_MS);
      seen = (await this.#answered(untilMs, () => this.fleet.mesh.clients.tasks.getTask({ taskId }))).task;
    }
  }

  /** Calls every director until the leader answers. */
  async #answered<Answer>(untilMs: number, call: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof DomainError) || performance.now() > untilMs) throw error;
        this.repeated.calls++;
        await sleep(AGAIN_MS);
      }
    }
  }
}

/**
 * Provides, detaches and deploys while directors and dispatchers are killed. In the end every request must be done, the
 * records must match the infrastructure, and nothing may have been done twice.
 */
export async function runStorm(options: StormOptions): Promise<StormResult> {
  const { fleet, seed, report } = options;
  const { deployments } = fleet.mesh.clients;
  await new Callers(fleet, []).deploy("base", options.targets);
  const { instances } = await deployments.listInstances({ deployment: "base", pageSize: 1_000 });
  const targets = instances.map(({ instanceId }) => instanceId);
  const callers = new Callers(fleet, targets);
  const named = (kind: string, round: number, count: number) =>
    Array.from({ length: count }, (_, index) => `${kind}-${round}-${index}`);
  let leaving = named("disk", 0, options.detaches);
  await Promise.all(leaving.map((name, index) => callers.provide(name, index)));
  const wanted = new Map(leaving.map((name) => [name, true]));
  report(`${options.targets} VMs, ${leaving.length} disks; killing, seed ${seed}`);

  const answers = watchAnswers(fleet);
  const killing = Promise.all([
    killDirectors(fleet, answers, { ...options, random: new Random(seed) }),
    killDispatchers(fleet, { ...options, random: new Random(seed + 1) }),
  ]).then(([{ unansweredMs, ...ofDirectors }, dispatchers]) => ({
    unansweredMs,
    kills: { ...ofDirectors, dispatchers },
  }));
  const isOver = killing.then(() => true);
  // Stops at the first broken promise, because callers would otherwise retry for a long time without a useful message.
  const broken = new Promise<never>((_, reject) => isOver.catch(reject));
  broken.catch(() => {});
  let rounds = 0;
  do {
    rounds++;
    const [provided, wave] = [named("disk", rounds, options.provides), `wave-${rounds}`];
    const asked = Promise.all([
      ...provided.map((name, index) => callers.provide(name, index)),
      ...leaving.map((name) => callers.detach(name)),
      callers.deploy(wave, options.instances),
    ]);
    await Promise.race([asked, broken]);
    for (const name of provided) wanted.set(name, true);
    for (const name of leaving) wanted.set(name, false);
    leaving = provided.slice(0, options.detaches);
    report(
      `round ${rounds} is done: ${provided.length} provides, ${leaving.length} detaches, ${options.instances} VMs`,
    );
    if (rounds > 1) await callers.deleteDeployment(`wave-${rounds - 1}`);
  } while (!(await Promise.race([isOver, false])));
  const { kills, unansweredMs } = await killing;
  answers.stop();

  const violations = await eventually(() => settledViolations(fleet, wanted), { timeoutMs: PATIENCE_MS });
  const { length: possibleOrphans } = (await deployments.listPossibleOrphans({})).possibleOrphans;
  return { violations, kills, unansweredMs, rounds, repeated: callers.repeated, possibleOrphans };
}

/** Returns the violations once no work is in progress. */
async function settledViolations(fleet: FileFleet, wanted: ReadonlyMap<string, boolean>): Promise<string[]> {
  const { tasks, disks } = fleet.mesh.clients;
  const live = await allPages(async (pageToken) => {
    const page = await tasks.listTasks({ states: LIVE, pageToken });
    return { items: page.tasks, nextPageToken: page.nextPageToken };
  });
  if (live.length > 0) throw new Error(`${live.length} tasks are under way: ${live[0]?.description}`);
  const { owedRemovals } = await disks.listOwedRemovals({});
  if (owedRemovals.length > 0) throw new Error(`${owedRemovals.length} agents have yet to be told to let go of a disk`);
  return violationsOf(fleet, wanted);
}

const LIVE = [TaskState.QUEUED, TaskState.PROCESSING, TaskState.CANCELLING];
