import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { FencedError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Change } from "../schema.js";
import type { Claim, Leader, TabletStorage } from "../storage.js";
import { damageOr, LmdbEnvironment, type LmdbOptions, type TextDatabase } from "./environment.js";
import { noRoomError } from "./room.js";

/** What the meta database says of the latest claim. */
interface StoredClaim extends Claim, Leader {}

const CLAIM = Buffer.from("claim");
const TABLES = Buffer.from("tables");

/** LMDB opens few databases quickly and many slowly; a tablet has a dozen. */
const TABLES_MAX = 60;

/** A load lets the process do other things, such as answer health checks, after so many documents. */
const LOAD_TURN_DOCUMENTS = 4_096;

/** A tablet in a folder of one machine: a table is an LMDB database, a commit is one synced transaction. */
export function openLmdbStorage(options: LmdbOptions): TabletStorage {
  return new LmdbStorage(options);
}

class LmdbStorage implements TabletStorage {
  readonly #options: LmdbOptions;
  readonly #tables = new Map<string, TextDatabase>();
  #environment: LmdbEnvironment | undefined;
  #claim: StoredClaim | undefined;

  constructor(options: LmdbOptions) {
    this.#options = options;
  }

  async claim(leader: Leader): Promise<Claim> {
    this.#environment ??= await LmdbEnvironment.open("tablet", this.#options);
    const { meta } = this.#environment;
    this.#claim = await this.#write(() => {
      const last = storedClaim(meta);
      const claim: StoredClaim = {
        tabletId: last?.tabletId ?? randomUUID(),
        // Absent in stores of the first release.
        incarnation: last?.incarnation ?? randomUUID(),
        parentIncarnations: last?.parentIncarnations ?? [],
        generation: (last?.generation ?? 0) + 1,
        writer: leader.writer,
        address: leader.address,
      };
      meta.putSync(CLAIM, JSON.stringify(claim));
      return claim;
    });
    const { tabletId, incarnation, parentIncarnations, generation } = this.#claim;
    return { tabletId, incarnation, parentIncarnations, generation };
  }

  async load(onDocument: (table: string, key: string, document: object) => void): Promise<void> {
    const { environment } = this.#claimed();
    try {
      await this.#loadTables(environment, onDocument);
    } catch (error) {
      throw damageOr(error, this.#options.folder);
    }
    // All documents are in the tablet's memory now; the pages they came from would cost the same again.
    this.#tables.clear();
    await environment.unmap();
  }

  async #loadTables(
    environment: LmdbEnvironment,
    onDocument: (table: string, key: string, document: object) => void,
  ): Promise<void> {
    let loaded = 0;
    for (const name of storedTables(environment.meta)) {
      for (const { key, value } of this.#table(name).getRange()) {
        onDocument(name, key.toString(), parseDocument(value, name, key, this.#options.folder));
        if (++loaded % LOAD_TURN_DOCUMENTS === 0) await nextTurn();
      }
    }
  }

  async commit(changes: readonly Change[]): Promise<void> {
    const { environment, claim } = this.#claimed();
    // Everything that can be wrong with the changes is found before the transaction.
    const names = [...new Set(changes.map((change) => change.table))];
    const writes = changes.map(({ table, key, document }) => ({
      table: this.#table(table),
      key: Buffer.from(key),
      value: document === null ? undefined : JSON.stringify(document),
    }));
    await this.#write(() => {
      this.#refuseFenced(environment, claim);
      rememberTables(environment.meta, names);
      for (const { table, key, value } of writes) {
        if (value === undefined) table.removeSync(key);
        else table.putSync(key, value);
      }
    });
  }

  async renew(): Promise<void> {
    const { environment, claim } = this.#claimed();
    this.#refuseFenced(environment, claim);
  }

  async claimAbove(generation: number): Promise<number> {
    const { environment, claim } = this.#claimed();
    const higher = await this.#write(() => {
      const last = this.#refuseFenced(environment, claim);
      const next = { ...last, generation: Math.max(generation, last.generation) + 1 };
      environment.meta.putSync(CLAIM, JSON.stringify(next));
      return next;
    });
    this.#claim = higher;
    return higher.generation;
  }

  async close(): Promise<void> {
    const environment = this.#environment;
    this.#environment = undefined;
    this.#claim = undefined;
    this.#tables.clear();
    await environment?.close();
  }

  #claimed(): { environment: LmdbEnvironment; claim: StoredClaim } {
    if (this.#environment === undefined || this.#claim === undefined) {
      throw new InvalidStateError(
        `the tablet in ${this.#options.folder} is used before it was claimed, or after it was closed`,
      );
    }
    return { environment: this.#environment, claim: this.#claim };
  }

  /** Returns the own claim as it is stored: its generation may be higher meanwhile, its writer is nobody else's. */
  #refuseFenced(environment: LmdbEnvironment, own: StoredClaim): StoredClaim {
    const last = storedClaim(environment.meta);
    if (last?.writer === own.writer) return last;
    throw new FencedError(
      `the tablet in ${this.#options.folder} has been claimed by ${last?.address} with generation ${last?.generation}; this process has generation ${own.generation}`,
    );
  }

  #table(name: string): TextDatabase {
    let table = this.#tables.get(name);
    if (table === undefined) {
      if (!/^[A-Za-z][A-Za-z0-9]*$/.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a table name`);
      if (this.#tables.size >= TABLES_MAX) throw new TypeError(`more than ${TABLES_MAX} tables in one tablet`);
      table = this.#claimed().environment.database(name);
      this.#tables.set(name, table);
    }
    return table;
  }

  async #write<T>(action: () => T): Promise<T> {
    try {
      return await (this.#environment as LmdbEnvironment).write(action);
    } catch (error) {
      if (error instanceof FencedError) throw error;
      const damage = damageOr(error, this.#options.folder);
      if (damage !== error) throw damage;
      const noRoom = noRoomError(error, "cannot write to the tablet", this.#options.folder, "unknown");
      throw (
        noRoom ??
        new UnavailableError(`cannot write to the tablet in ${this.#options.folder}: ${messageOf(error)}`, {
          cause: error,
          outcome: "unknown",
        })
      );
    }
  }
}

function storedClaim(meta: TextDatabase): StoredClaim | undefined {
  const stored = meta.get(CLAIM);
  return stored === undefined ? undefined : (JSON.parse(stored) as StoredClaim);
}

function storedTables(meta: TextDatabase): string[] {
  const stored = meta.get(TABLES);
  return stored === undefined ? [] : (JSON.parse(stored) as string[]);
}

function rememberTables(meta: TextDatabase, names: readonly string[]): void {
  const known = storedTables(meta);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) meta.putSync(TABLES, JSON.stringify([...known, ...unknown]));
}

function parseDocument(value: string, table: string, key: Buffer, folder: string): object {
  let document: unknown;
  try {
    document = JSON.parse(value);
  } catch {
    // reported below
  }
  if (typeof document === "object" && document !== null) return document;
  throw new InvalidStateError(
    `the folder ${folder} is damaged: table ${table}, key ${JSON.stringify(key.toString())} holds no document; restore it from a backup`,
  );
}
