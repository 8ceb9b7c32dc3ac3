import type { DatabaseProcess } from "@diskmesh/tablet/testing";
import { eventually, type ServiceProcess } from "@diskmesh/testkit";
import type { RegistryMesh } from "../mesh/registry-mesh.js";
import type { Account } from "./account.js";
import { type CallerCounts, PATIENCE_MS } from "./callers.js";
import { seededRandom } from "./random.js";
import type { Store } from "./stores.js";

export interface KillCounts {
  registry: number;
  agents: number;
  database: number;
}

export interface Killing {
  readonly mesh: RegistryMesh;
  readonly store: Store;
  readonly account: Account;
  readonly calls: CallerCounts;
  readonly kills: KillCounts;
  readonly seed: number;
  readonly isOver: () => boolean;
}

/** Milliseconds from a start to the next kill: anything from `least` to `most`. */
interface Pauses {
  readonly least: number;
  readonly most: number;
}

const PAUSES: Pauses = { least: 100, most: 1_000 };
/** A takeover takes its lease time: in shorter ones little would be added or removed. */
const PAUSES_WITH_DATABASE: Pauses = { least: 100, most: 4_000 };
const DATABASE_AWAY: Pauses = { least: 0, most: 1_000 };

/** How many starts come to do something before the next kill, however slow the machine is; others are hit at any point. */
const SPARED_SHARE = 0.75;

const LEADS_OR_STANDS_BY = /"(disk-registry serves|stands by)"/;

/** Kills processes, alone and at once, again and again, at whatever they are at, and starts them again. */
export async function kill(killing: Killing): Promise<void> {
  const { mesh, store, account, calls, kills, seed } = killing;
  const { database } = store;
  const randomOf = (index: number) => seededRandom(seed * 7 + index);
  const answered = () => {
    const before = calls.answered;
    return () => calls.answered > before;
  };
  // A killer for each: while one process is started again, another may be killed.
  const registries = mesh.registries.map(async (process, index) => {
    const registry = new KilledRegistry(process, database !== undefined, account);
    const pauses = database === undefined ? PAUSES : PAUSES_WITH_DATABASE;
    await again(killing, pauses, randomOf(1_000 * index), async () => {
      const worked = answered();
      await registry.restart();
      kills.registry++;
      return worked;
    });
    await registry.comeUp();
  });
  const agents = [...mesh.agents].map(([hostId, process], index) =>
    again(killing, PAUSES, randomOf(1 + index), async () => {
      if (process.exit !== undefined) account.violated(`the agent of ${hostId} ended by itself`);
      const before = process.logs.length;
      await process.restart();
      kills.agents++;
      return () => process.logs.slice(before).includes('"registered"');
    }),
  );
  const killDatabase = async (process: DatabaseProcess, random: () => number) =>
    again(killing, PAUSES_WITH_DATABASE, random, async () => {
      await process.kill();
      await pauseOf(DATABASE_AWAY, random);
      await process.start();
      kills.database++;
      return answered();
    });
  await Promise.all([...registries, ...agents, ...(database ? [killDatabase(database, randomOf(500))] : [])]);
}

/** `act` kills and starts again, and returns whether what was started has come to do something. */
async function again(
  { isOver }: Killing,
  pauses: Pauses,
  random: () => number,
  act: () => Promise<() => boolean>,
): Promise<void> {
  while (!isOver()) {
    await pauseOf(pauses, random);
    const worked = await act();
    if (random() < SPARED_SHARE) while (!worked() && !isOver()) await pauseMs(50);
  }
}

/**
 * A registry that finds no database when it starts ends, for an operator to see, and whoever supervises it starts it
 * again; one that has once led or stood by waits instead, and never ends by itself.
 */
class KilledRegistry {
  #logsBefore = 0;

  constructor(
    private readonly process: ServiceProcess,
    private readonly needsDatabase: boolean,
    private readonly account: Account,
  ) {}

  async restart(): Promise<void> {
    if (this.process.exit !== undefined && (!this.needsDatabase || this.#wasUp()))
      this.account.violated(`a registry ended by itself: ${this.process.logs.slice(-1_000)}`);
    for (const untilMs = performance.now() + PATIENCE_MS; ; ) {
      try {
        await this.process.kill();
        this.#logsBefore = this.process.logs.length;
        return await this.process.start();
      } catch (error) {
        if (!this.needsDatabase || this.#wasUp() || performance.now() > untilMs) throw error;
      }
    }
  }

  /** Resolves once it leads or stands by, with nothing to be killed any more. */
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

function pauseOf({ least, most }: Pauses, random: () => number): Promise<void> {
  return pauseMs(least + random() * (most - least));
}

function pauseMs(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
