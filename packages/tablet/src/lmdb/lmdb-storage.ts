import { randomUUID } from "node:crypto";
import { FencedError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import { refuseRestore, restoredFields } from "../backup/restored-claim.js";
import { addChanges } from "../batch.js";
import { type Checked, checksumAt, StateSums, type StoredSums } from "../checksums.js";
import { CURE, STORE_FORMAT } from "../format.js";
import { type Place, placeOf } from "../place.js";
import type { Claim, ClaimOptions, Leader, OnDocument, StoredChange, TabletStorage } from "../storage.js";
import {
  damageOr,
  LmdbEnvironment,
  type LmdbOptions,
  META,
  type TableDatabase,
  type TextDatabase,
} from "./environment.js";
import { damagedDocument, ReadDocuments } from "./read-documents.js";
import { TableRecords } from "./record.js";
import { CHANGE_BYTES, noRoomError } from "./room.js";
import { setAside } from "../embedded/set-aside.js";

/** What the meta database says of the latest claim. */
interface StoredClaim extends Claim, Leader {
  /** A restore began with it, and has not ended. */
  readonly isRestore?: true | undefined;
}

interface OpenTable {
  readonly database: TableDatabase;
  readonly records: TableRecords;
}

interface Write {
  readonly change: StoredChange;
  readonly table: OpenTable;
  readonly keyBytes: Buffer;
  /** Undefined: it is deleted. */
  readonly bytes: Buffer | undefined;
}

/** Records of the meta database. The sums are of the whole state, as of the last commit. */
const CLAIM = "claim";
const TABLES = "tables";
const SUMS = "sums";
/** Before the writer of the latest claim: a commit is made only where that is there. */
const LEADS = "leads ";

/** LMDB opens few databases quickly and many slowly; a tablet has a dozen. */
const TABLES_MAX = 60;

/** A tablet in a folder of one machine: a table is an LMDB database, a commit is one synced transaction. */
export function openLmdbStorage(options: LmdbOptions): TabletStorage {
  return new LmdbStorage(options);
}

class LmdbStorage implements TabletStorage {
  readonly #options: LmdbOptions;
  readonly #tables = new Map<string, OpenTable>();
  readonly #metaRecords = new TableRecords(META);
  /** By name, what was read last of the meta database. */
  readonly #decoded = new Map<string, { readonly text: string; readonly document: object }>();
  #documents: ReadDocuments;
  #environment: LmdbEnvironment | undefined;
  #claim: StoredClaim | undefined;
  /** Of what is stored; undefined before the load. */
  #sums: StateSums | undefined;

  constructor(options: LmdbOptions) {
    this.#options = options;
    this.#documents = new ReadDocuments(options.folder);
  }

  async claim(leader: Leader, { restore }: ClaimOptions = {}): Promise<Claim> {
    if (restore?.replace) await setAside(this.#options.folder);
    this.#environment ??= await LmdbEnvironment.open("tablet", this.#options, this.#documents.add);
    const { meta } = this.#environment;
    this.#claim = await this.#write(CHANGE_BYTES, () => {
      const last = this.#storedClaim(meta);
      refuseRestore(last, restore, `the tablet in ${this.#options.folder}`);
      const claim: StoredClaim = {
        tabletId: last?.tabletId ?? randomUUID(),
        // Absent in stores of the first release.
        incarnation: last?.incarnation ?? randomUUID(),
        parentIncarnations: last?.parentIncarnations ?? [],
        generation: (last?.generation ?? 0) + 1,
        ...(restore && restoredFields(restore, last?.generation ?? 0)),
        writer: leader.writer,
        address: leader.address,
      };
      this.#put(meta, CLAIM, claim);
      this.#noteLeads(meta, claim);
      if (last === undefined) this.#put(meta, SUMS, {});
      return claim;
    });
    const { tabletId, incarnation, parentIncarnations, generation } = this.#claim;
    return { tabletId, incarnation, parentIncarnations, generation };
  }

  async load(onDocument: OnDocument): Promise<void> {
    const { environment } = this.#claimed();
    try {
      const sums = await this.#loadTables(environment, onDocument);
      await this.#refuseUnlessWhole(environment, sums);
      this.#sums = sums;
    } catch (error) {
      throw damageOr(error, this.#options.folder);
    }
  }

  async #loadTables(environment: LmdbEnvironment, onDocument: OnDocument): Promise<StateSums> {
    const documents = this.#documents;
    this.#documents = new ReadDocuments(this.#options.folder);
    // What was read before the claim may be outdated where others could write until then.
    if (this.#options.exclusive === false) await environment.read(documents.add);
    return documents.load(this.#storedTables(environment.meta), onDocument);
  }

  async #refuseUnlessWhole(environment: LmdbEnvironment, sums: StateSums): Promise<void> {
    const expected = this.#get<StoredSums>(environment.meta, SUMS);
    if (expected === undefined && environment.format < STORE_FORMAT) {
      // The first release kept none: what is there is believed once, and what becomes of it is accounted for from now on.
      await this.#write(CHANGE_BYTES, () => {
        this.#put(environment.meta, SUMS, sums.stored());
        environment.upgradeFormat();
      });
      return;
    }
    const difference = expected === undefined ? "its sums are missing" : sums.differenceFrom(expected);
    if (difference === undefined) return;
    throw new InvalidStateError(`the tablet in ${this.#options.folder} is not whole: ${difference}; ${CURE}`);
  }

  async commit(changes: readonly StoredChange[]): Promise<void> {
    const { environment, claim } = this.#claimed();
    if (this.#sums === undefined) {
      throw new InvalidStateError(`the tablet in ${this.#options.folder} is used before it was loaded`);
    }
    // Everything that can be wrong is found before the transaction, of which nothing is done where another process has
    // claimed by then. Nobody else writes, so that what it replaces is what is there now.
    this.#refuseFenced(environment, claim);
    const byKey = new Map<string, StoredChange>();
    addChanges(byKey, changes);
    const names = [...new Set(changes.map((change) => change.table))];
    const sums = new StateSums(this.#sums);
    let sizeBytes = 0;
    const writes = Array.from(byKey.values(), (change): Write => {
      const { document, version } = change;
      const [table, keyBytes] = [this.#table(change.table), Buffer.from(change.key)];
      const record = document === null ? undefined : table.records.encode(keyBytes, { document, version });
      if (record !== undefined) sums.add(change.table, record.checksum);
      sizeBytes += CHANGE_BYTES + keyBytes.length + (record?.bytes.length ?? 0);
      return { change, table, keyBytes, bytes: record?.bytes };
    });
    for (const write of writes) this.#removeReplaced(sums, write);
    const tables = this.#tablesWith(environment.meta, names);
    const write = (): void => {
      if (tables !== undefined) this.#put(environment.meta, TABLES, { names: tables });
      for (const { table, keyBytes, bytes } of writes) {
        if (bytes === undefined) void table.database.remove(keyBytes);
        else void table.database.put(keyBytes, bytes);
      }
      this.#put(environment.meta, SUMS, sums.stored());
    };
    const isDone = await this.#writing(() => environment.writeBlindly(sizeBytes, write, leadsKey(claim)));
    if (!isDone) this.#refuseFenced(environment, claim);
    if (!isDone) throw new InvalidStateError(`the tablet in ${this.#options.folder} does not say who leads; ${CURE}`);
    this.#sums = sums;
  }

  /** Its checksum stands where it is about to be replaced: to read it costs half of making it anew. */
  #removeReplaced(sums: StateSums, { change, table: { database, records }, keyBytes }: Write): void {
    const { table, key, previous } = change;
    const record = database.getBinaryFast(keyBytes);
    if ((record === undefined) !== (previous === null)) {
      const found = record === undefined ? "is missing" : "is there, and was never committed";
      throw new InvalidStateError(
        `the tablet in ${this.#options.folder} is not whole: table ${table}, document ${JSON.stringify(key)} ${found}; ${CURE}`,
      );
    }
    if (record === undefined) return;
    const checksum = checksumAt(placeOf(record));
    // What lmdb lends is longer than the length that it has set says.
    const ownPlace = (): Place => placeOf(record.subarray(0, record.length));
    sums.remove(table, checksum ?? this.#decode(table, records, keyBytes, ownPlace()).checksum);
  }

  async renew(): Promise<void> {
    const { environment, claim } = this.#claimed();
    this.#refuseFenced(environment, claim);
    environment.refuseReplaced();
  }

  async claimAbove(generation: number): Promise<number> {
    const { environment, claim } = this.#claimed();
    const higher = await this.#write(CHANGE_BYTES, () => {
      const last = this.#refuseFenced(environment, claim);
      const { isRestore, ...kept } = last;
      const next = { ...kept, generation: Math.max(generation, last.generation) + 1 };
      this.#put(environment.meta, CLAIM, next);
      return next;
    });
    this.#claim = higher;
    return higher.generation;
  }

  async close(): Promise<void> {
    const environment = this.#environment;
    this.#environment = undefined;
    this.#claim = undefined;
    this.#sums = undefined;
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
    const last = this.#storedClaim(environment.meta);
    if (last?.writer === own.writer) return last;
    throw new FencedError(
      `the tablet in ${this.#options.folder} has been claimed by ${last?.address} with generation ${last?.generation}; this process has generation ${own.generation}`,
    );
  }

  #table(name: string): OpenTable {
    let table = this.#tables.get(name);
    if (table === undefined) {
      if (!/^[A-Za-z][A-Za-z0-9]*$/.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a table name`);
      if (this.#tables.size >= TABLES_MAX) throw new TypeError(`more than ${TABLES_MAX} tables in one tablet`);
      table = { database: this.#claimed().environment.table(name), records: new TableRecords(name) };
      this.#tables.set(name, table);
    }
    return table;
  }

  #write<T>(sizeBytes: number, action: () => T): Promise<T> {
    return this.#writing(() => (this.#environment as LmdbEnvironment).write(sizeBytes, action));
  }

  async #writing<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      if (error instanceof FencedError || error instanceof InvalidStateError) throw error;
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

  #storedClaim(meta: TextDatabase): StoredClaim | undefined {
    return this.#get(meta, CLAIM);
  }

  #storedTables(meta: TextDatabase): string[] {
    const text = meta.get(Buffer.from(TABLES));
    // As the first release wrote it.
    if (text?.startsWith("[")) return JSON.parse(text) as string[];
    return this.#get<{ names: string[] }>(meta, TABLES)?.names ?? [];
  }

  /** All tables, where these are not among them yet. */
  #tablesWith(meta: TextDatabase, names: readonly string[]): readonly string[] | undefined {
    const known = this.#storedTables(meta);
    const unknown = names.filter((name) => !known.includes(name));
    return unknown.length === 0 ? undefined : [...known, ...unknown];
  }

  #get<T>(meta: TextDatabase, name: string): T | undefined {
    const text = meta.get(Buffer.from(name));
    if (text === undefined) return undefined;
    // Each commit asks for claim and tables, and mostly they are what they were.
    let decoded = this.#decoded.get(name);
    if (decoded?.text !== text) {
      decoded = { text, document: this.#decodeMeta(name, text).document };
      this.#decoded.set(name, decoded);
    }
    return decoded.document as T;
  }

  #put(meta: TextDatabase, name: string, document: object): void {
    const key = Buffer.from(name);
    void meta.put(key, this.#metaRecords.encode(key, { document, version: 1 }).bytes.toString());
  }

  #noteLeads(meta: TextDatabase, claim: StoredClaim): void {
    const former = [...meta.getKeys({ start: Buffer.from(LEADS), end: Buffer.from(`${LEADS}~`) })];
    for (const key of former) void meta.remove(key);
    void meta.put(leadsKey(claim), `${claim.generation}`);
  }

  #decodeMeta(name: string, text: string): Checked {
    return this.#decode(META, this.#metaRecords, Buffer.from(name), placeOf(Buffer.from(text)));
  }

  #decode(table: string, records: TableRecords, key: Buffer, record: Place): Checked {
    try {
      return records.decode(placeOf(key), record);
    } catch (error) {
      throw damagedDocument(this.#options.folder, table, key.toString(), error);
    }
  }
}

function leadsKey({ writer }: Leader): Buffer {
  return Buffer.from(LEADS + writer);
}
