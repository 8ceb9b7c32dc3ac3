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
  /** Concurrent provides, repeated until all kills are done. */
  readonly provides: number;
  readonly detaches: number;
  readonly instances: number;
  /** VMs that disks are attached to. */
  readonly targets: number;
  /** Faults of the leader: SIGKILL, and SIGSTOP until another leads. A single director is killed and started again. */
  readonly kills: number;
  readonly pauses: number;
  readonly dispatcherKills: number;
  readonly seed: number;
  readonly report: (line: string) => void;
}

export interface StormResult {
  readonly violations: readonly string[];
  readonly kills: Kills;
  /** Longest time in which no director answered, for each kill or pause of one. */
  readonly unansweredMs: readonly number[];
  readonly rounds: number;
  /** Calls that were made again since no answer came, and requests that were made again since their task had failed. */
  readonly repeated: { calls: number; requests: number };
  /** Objects of a CPI that finds nothing again: it may have made so many that nobody knows. */
  readonly possibleOrphans: number;
}

/** On a machine that does much else. */
const PATIENCE_MS = 600_000;
const AGAIN_MS = 200;
const LOOK_MS = 200;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Callers who ask until what they want is done: for a task, then how that is going, and for another one if it failed. */
class Callers {
  readonly repeated = { calls: 0, requests: 0 };

  constructor(
    private readonly fleet: FileFleet,
    private readonly targets: readonly string[],
  ) {}

  provide(diskName: string, target: number): Promise<void> {
    const instanceId = this.targets[target % this.targets.length] ?? "";
    const request = { diskName, instanceId, diskPoolName: "fast", sizeBytes: 1024 * 1024 };
    return this.#ask(`provide ${diskName}`, () => this.fleet.mesh.clients.disks.provideDisk(request));
  }

  detach(diskName: string): Promise<void> {
    return this.#ask(`detach ${diskName}`, () => this.fleet.mesh.clients.disks.detachDisk({ diskName }));
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
      if (seen === undefined || seen.endedAt !== undefined) return seen;
      const { taskId } = seen;
      await pause(LOOK_MS);
      seen = (await this.#answered(untilMs, () => this.fleet.mesh.clients.tasks.getTask({ taskId }))).task;
    }
  }

  /** Asks every director until the leader answers. */
  async #answered<Answer>(untilMs: number, call: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof DomainError) || performance.now() > untilMs) throw error;
        this.repeated.calls++;
        await pause(AGAIN_MS);
      }
    }
  }
}

/**
 * Provides, detaches and deploys while directors and dispatchers are killed. In the end all that was asked for is done, what
 * is recorded is what the infrastructure has, and nothing was done twice.
 */
export async function runStorm(options: StormOptions): Promise<StormResult> {
  const { fleet, seed, report } = options;
  const { deployments } = fleet.mesh.clients;
  await new Callers(fleet, []).deploy("base", options.targets);
  const { instances } = await deployments.listInstances({ deployment: "base" });
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
  // Callers would ask on for long, and tell no more than that nobody answers.
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

/** Once nothing is under way any more. */
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
