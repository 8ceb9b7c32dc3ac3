import { setTimeout as sleep } from "node:timers/promises";
import type { DatabaseProcess } from "@diskmesh/tablet/testing";
import { eventually, type ServiceProcess } from "@diskmesh/testkit";
import type { Store } from "../mesh/stores.js";
import type { TestMesh } from "../mesh/test-mesh.js";
import { Random } from "../random.js";
import type { Account } from "./account.js";
import { type Calls, PATIENCE_MS } from "./callers.js";
import type { Truce } from "./truce.js";

export interface KillCounts {
  registry: number;
  agents: number;
  database: number;
}

export interface Killing {
  readonly mesh: TestMesh;
  readonly registries: readonly KilledRegistry[];
  readonly store: Store;
  readonly account: Account;
  readonly calls: Calls;
  readonly kills: KillCounts;
  readonly seed: number;
  /** Time in ms that a process runs on after it has done something, in addition to the pauses. */
  readonly restMs: number;
  readonly truce: Truce;
  readonly isOver: () => boolean;
}

/** Range of the time in ms from a start to the next kill. */
interface Pauses {
  readonly least: number;
  readonly most: number;
}

const PAUSES: Pauses = { least: 100, most: 1_000 };
/** Pauses with a database. A takeover takes the lease time, so shorter pauses would leave little time for calls. */
const PAUSES_WITH_DATABASE: Pauses = { least: 100, most: 4_000 };
const DATABASE_AWAY: Pauses = { least: 0, most: 1_000 };

/**
 * Share of started processes that are killed only after they have done something. The others are killed at any time.
 */
const SPARED_SHARE = 0.75;
/**
 * Share of the processes of SPARED_SHARE that are killed with the next answer to a caller, when its content has just
 * become durable.
 */
const WITH_ANSWER_SHARE = 0.5;

/**
 * Share of kills that include the database and all registries, as when a machine fails, so that no memory can replace
 * lost data.
 */
const ALL_AT_ONCE_SHARE = 0.4;

const LEADS_OR_STANDS_BY = /"(leadership gained|standby mode entered)"/;

/** Kills processes repeatedly, alone and together, at random times, and starts them again. */
export async function kill(killing: Killing): Promise<void> {
  const { mesh, registries, store, account, calls, kills, seed, restMs, truce, isOver } = killing;
  const { database } = store;
  const over = until(isOver);
  // One task per kind of process, so that another process may be killed while one restarts.
  type Act = (random: Random) => Promise<() => Promise<void>>;
  const killer = (index: number, pauses: Pauses, act: Act, answered = () => calls.next()) => {
    const random = new Random(seed * 7 + index);
    return again({ answered, isOver, over, pauses, restMs, random }, () => truce.act(() => act(random)));
  };
  const killRegistry = async (registry: KilledRegistry) => {
    await registry.restart();
    kills.registry++;
  };
  const registriesDone = registries.map(async (registry, index) => {
    // Also waits for the registry's end: a registry that found no database ends, and is started again at once, because
    // it may be the last one.
    const answered = () => Promise.race([calls.next(), until(() => isOver() || registry.hasEnded)]);
    const restarted = async () => {
      await killRegistry(registry);
      return answered;
    };
    await killer(1_000 * index, database === undefined ? PAUSES : PAUSES_WITH_DATABASE, restarted, answered);
    await registry.comeUp();
  });
  // Does not kill the agent of the disks' host, because the test reads the disks through it.
  const killed = mesh.hostIds.filter((hostId) => account.of(hostId).length > 0);
  const agents = killed.map((hostId, index) =>
    killer(1 + index, PAUSES, async () => {
      const process = mesh.process(hostId);
      if (process.exit !== undefined) account.violated(`the agent of ${hostId} ended by itself`);
      const before = process.logs.length;
      await process.restart();
      kills.agents++;
      return () => until(() => isOver() || process.logs.slice(before).includes('"agent registered"'));
    }),
  );
  const killDatabase = (process: DatabaseProcess) =>
    killer(500, PAUSES_WITH_DATABASE, async (random) => {
      const withIt = random.next() < ALL_AT_ONCE_SHARE ? registries : [];
      await Promise.all([process.kill(), ...withIt.map((registry) => registry.kill())]);
      kills.database++;
      await pauseOf(DATABASE_AWAY, random);
      await process.start();
      await Promise.all(withIt.map(killRegistry));
      return () => calls.next();
    });
  await Promise.all([...registriesDone, ...agents, ...(database ? [killDatabase(database)] : [])]);
}

interface Rhythm extends Pick<Killing, "isOver" | "restMs"> {
  /** Resolves with the next answer to a caller. */
  readonly answered: () => Promise<void>;
  readonly over: Promise<void>;
  readonly pauses: Pauses;
  readonly random: Random;
}

/**
 * Calls `act` repeatedly. `act` kills and restarts a process, and returns a function that waits until the process has
 * done something.
 */
async function again(rhythm: Rhythm, act: () => Promise<() => Promise<void>>) {
  const { answered, isOver, over, pauses, restMs, random } = rhythm;
  await pauseOf(pauses, random);
  while (!isOver()) {
    const worked = await act();
    if (random.next() < SPARED_SHARE) {
      await Promise.race([worked(), over]);
      const restedAtMs = performance.now() + restMs;
      await until(() => isOver() || performance.now() >= restedAtMs);
      if (random.next() < WITH_ANSWER_SHARE) {
        await Promise.race([answered(), over]);
        continue;
      }
    }
    await pauseOf(pauses, random);
  }
}

/**
 * A supervised registry. When it finds no database at its start, it ends with an error, and its supervisor starts it
 * again. Once it has led or stood by, it waits for the database instead.
 */
export class KilledRegistry {
  #logsBefore = 0;
  #wasKilled = false;
  #restarting: Promise<void> = Promise.resolve();

  constructor(
    private readonly process: ServiceProcess,
    private readonly needsDatabase: boolean,
    private readonly account: Account,
  ) {}

  get hasEnded(): boolean {
    return this.process.exit !== undefined;
  }

  async kill(): Promise<void> {
    this.#wasKilled = true;
    await this.process.kill();
  }

  /** Stops the registry for an operator, who starts it again with `restart`. */
  async stop(): Promise<void> {
    this.#wasKilled = true;
    if (this.process.exit === undefined) await this.process.stop();
  }

  /** Kills and restarts the registry. Calls run one at a time. */
  restart(): Promise<void> {
    this.#restarting = this.#restarting.catch(() => {}).then(() => this.#restart());
    return this.#restarting;
  }

  async #restart(): Promise<void> {
    if (this.process.exit !== undefined && !this.#wasKilled && (!this.needsDatabase || this.#wasUp()))
      this.account.violated(`a registry ended by itself: ${this.process.logs.slice(-1_000)}`);
    for (const untilMs = performance.now() + PATIENCE_MS; ; ) {
      try {
        await this.process.kill();
        this.#logsBefore = this.process.logs.length;
        this.#wasKilled = false;
        return await this.process.start();
      } catch (error) {
        if (!this.needsDatabase || (this.#wasUp() && !this.#wasKilled) || performance.now() > untilMs) throw error;
      }
    }
  }

  /** Resolves once the registry leads or stands by. */
  async comeUp(): Promise<void> {
    await eventually(
      async () => {
        if (this.process.exit !== undefined) await this.restart();
        return this.#wasUp();
      },
      { timeoutMs: PATIENCE_MS },
    );
  }

  #wasUp(): boolean {
    return LEADS_OR_STANDS_BY.test(this.process.logs.slice(this.#logsBefore));
  }
}

function pauseOf({ least, most }: Pauses, random: Random): Promise<void> {
  return sleep(random.between(least, most));
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(50);
}
