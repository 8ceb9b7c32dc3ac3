import { setImmediate as nextTurn } from "node:timers/promises";
import { CONNECTIONS_MAX, type DocumentServer, type ViewWrite } from "../document-server.js";
import { changed } from "../simulation/candidate.js";
import { SharedDocuments } from "../simulation/shared-documents.js";
import { idealServer } from "./ideal-server.js";

export interface RacingOptions {
  readonly random: () => number;
  /** Requests that are sent at once arrive within so many turns of the event loop. */
  readonly spreadTurns: number;
  /** Whether all connections are open already. Else each takes a while to open. */
  readonly isWarm: boolean;
}

/** Between what a condition sees and what is written because of it. */
const GAP_TURNS_MAX = 3;
const OPEN_TURNS = 20;

/**
 * Reads, lets others in between, then writes: as FerretDB 1.x does on PostgreSQL, where only the unique index on _id
 * keeps two inserts apart.
 */
export function racingServer({ random, spreadTurns, isWarm }: RacingOptions): DocumentServer {
  const documents = new SharedDocuments();
  const below = (limit: number): number => Math.floor(random() * limit);
  const pool = new Pool(isWarm ? CONNECTIONS_MAX : 0, () => turns(1 + below(OPEN_TURNS)));
  const ask = <T>(operation: () => T | Promise<T>): Promise<T> =>
    pool.run(async () => {
      await turns(below(spreadTurns));
      return operation();
    });
  const gap = (): Promise<void> => turns(1 + below(GAP_TURNS_MAX));
  const write = async (collection: string, one: ViewWrite): Promise<boolean> => {
    const stored = documents.get(collection, one.id);
    if (stored === undefined || (stored._seq as number) >= one.seq) return documents.write(collection, one);
    await gap();
    documents.delete(collection, one.id);
    return documents.write(collection, one);
  };
  return changed(idealServer(), {
    name: "racing",
    get: (collection, id) => ask(() => documents.get(collection, id)),
    insert: (collection, document) => ask(() => documents.insert(collection, document)),
    update: (collection, id, where, change) =>
      ask(async () => {
        const stored = documents.get(collection, id);
        if (Object.entries(where).some(([name, value]) => stored?.[name] !== value)) return false;
        await gap();
        return documents.update(collection, id, {}, change);
      }),
    write: (collection, writes) =>
      ask(async () => {
        const done = await Promise.all(writes.map((one) => write(collection, one)));
        return { present: writes.filter((_, index) => !done[index]) };
      }),
  });
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await nextTurn();
}

/** As the driver's: a request waits for a connection that is free, or opens one. */
class Pool {
  readonly #open: () => Promise<void>;
  #free: number;
  #total: number;
  #waiting: (() => void)[] = [];

  constructor(free: number, open: () => Promise<void>) {
    this.#free = free;
    this.#total = free;
    this.#open = open;
  }

  async run<T>(operation: () => Promise<T>): Promise<T> {
    await this.#connection();
    try {
      return await operation();
    } finally {
      this.#release();
    }
  }

  async #connection(): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    const given = new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#total < CONNECTIONS_MAX) {
      this.#total++;
      void this.#open().then(() => this.#release());
    }
    await given;
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next();
  }
}
