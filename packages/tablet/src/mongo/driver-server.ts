import { InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import {
  type AnyBulkWriteOperation,
  type ClientSession,
  type Collection,
  type CollectionInfo,
  type Db,
  type Filter,
  MongoBulkWriteError,
  MongoCompatibilityError,
  MongoError,
  MongoInvalidArgumentError,
  MongoServerError,
  MongoServerSelectionError,
} from "mongodb";
import { databaseOf, newClient } from "./client.js";
import type { IsOurs } from "./collections.js";
import { collectionProblem, engineProblem } from "./compatibility.js";
import {
  type DocumentChange,
  type DocumentReader,
  type DocumentServer,
  type Fields,
  LostAnswerError,
  type Range,
  type StoredDocument,
  type ViewWrite,
  type WriteResult,
} from "./document-server.js";
import { readTlsFiles } from "./tls-files.js";
import { checkUrlOptions } from "./url.js";

const DEFAULT_DATABASE = "diskmesh";

const DUPLICATE_KEY = 11_000;
/** Error codes of operations that are invalid or not permitted, so that a retry cannot help. */
const REFUSED_CODES: readonly unknown[] = [2, 9, 13, 14, 18, 20, 40, 59, 72, 73, 166, 10_334, 17_419, 17_420];

/**
 * Error codes of operations that had no effect for a temporary reason: a time limit, write conflict, validator, quota,
 * full disk, or too many requests (Cosmos DB's 16500, Atlas' 8000).
 */
const NOT_DONE_CODES: readonly unknown[] = [50, 112, 121, 262, 8_000, 12_501, 14_031, 16_500];

/** Connects, or rejects with the reason. Messages never contain a user name or password. */
export async function connectToMongo(url: string, isOurs: IsOurs = () => false): Promise<DocumentServer> {
  checkUrlOptions(url);
  const client = newClient(url);
  const path = /^[^/]*\/\/[^/]*\/([^?]+)/.exec(url)?.[1] ?? DEFAULT_DATABASE;
  const { hosts, srvHost, replicaSet } = client.options;
  const name = `${srvHost ?? hosts.map(String).join(",")}/${path}`;
  try {
    await readTlsFiles(client.options);
    await client.connect();
    const server = new DriverServer(name, databaseOf(client, decodeURIComponent(path)));
    // Checks the permission, because the driver connects without using the database.
    await server.collections("");
    await server.lookForSessions();
    await server.refuseIncompatibleEngine();
    await server.refuseIncompatibleCollections(isOurs);
    return server;
  } catch (error) {
    await client.close().catch(() => {});
    throw whyNot(error, name, replicaSet ?? null);
  }
}

function whyNot(error: unknown, name: string, replicaSet: string | null): Error {
  const cause = error instanceof LostAnswerError ? error.cause : error;
  const reason = messageOf(cause);
  if (error instanceof MongoCompatibilityError || /wire version/i.test(reason)) {
    return new InvalidStateError(`MongoDB at ${name} is too old: ${reason}; use MongoDB 5 or newer`);
  }
  if (error instanceof InvalidStateError || error instanceof UnavailableError) return error;
  if (cause instanceof MongoServerError) return refusal(name, "to serve", cause);
  // When the replica set has another name, the driver ignores its servers and only reports that it found none.
  if (replicaSet !== null && cause instanceof MongoServerSelectionError && cause.reason?.servers.size === 0)
    return new UnavailableError(
      `MongoDB at ${name} has no server of replica set ${replicaSet}: check replicaSet in its address, or leave it out`,
    );
  return new UnavailableError(`MongoDB at ${name} cannot be reached: ${reason}; check its address and that it runs`);
}

const CURES: ReadonlyMap<unknown, string> = new Map([
  [13, "give its user the role readWrite on this database"],
  [18, "check the user, the password and authSource"],
]);

function refusal(name: string, what: string, error: unknown): InvalidStateError {
  const cure = error instanceof MongoServerError ? CURES.get(error.code) : undefined;
  return new InvalidStateError(
    `MongoDB at ${name} refuses ${what}: ${messageOf(error)}${cure === undefined ? "" : `; ${cure}`}`,
    { cause: error },
  );
}

/** DocumentServer on the official driver. */
class DriverServer implements DocumentServer {
  readonly #database: Db;
  readonly #inSession: { readonly session?: ClientSession };
  #hasSessions = false;

  /** `session` is set for reads in order. */
  constructor(
    readonly name: string,
    database: Db,
    session?: ClientSession,
  ) {
    this.#database = database;
    this.#inSession = session === undefined ? {} : { session };
  }

  /** Determines whether the server supports sessions, which reads in order need. */
  async lookForSessions(): Promise<void> {
    const hello = await this.#askIfAllowed("telling whether it has sessions", {}, (database) =>
      database.command({ hello: 1 }),
    );
    this.#hasSessions = typeof (hello as Fields).logicalSessionTimeoutMinutes === "number";
  }

  readInOrder<T>(read: (reader: DocumentReader) => Promise<T>): Promise<T> {
    if (!this.#hasSessions) return read(this);
    const { client, databaseName } = this.#database;
    return client.withSession({ causalConsistency: true }, (session) =>
      read(new DriverServer(this.name, databaseOf(client, databaseName), session)),
    );
  }

  /** Throws InvalidStateError when the server's engine is known to be unable to store a tablet. */
  async refuseIncompatibleEngine(): Promise<void> {
    // A server that does not report its version is checked by the probe alone.
    const buildInfo = await this.#askIfAllowed("telling its version", {}, (database) =>
      database.command({ buildInfo: 1 }),
    );
    const unfit = engineProblem(buildInfo);
    if (unfit !== undefined) throw new InvalidStateError(`MongoDB at ${this.name} cannot hold a tablet: ${unfit}`);
  }

  /** Throws InvalidStateError when a collection's options or indexes would lose a tablet's writes. */
  async refuseIncompatibleCollections(isOurs: IsOurs): Promise<void> {
    const listed = await this.#ask("listing collections", (database) =>
      database.listCollections<CollectionInfo>({}, { nameOnly: false }).toArray(),
    );
    const ours = listed.filter(({ name }) => isOurs(name));
    const shardKeys = ours.length > 0 ? await this.#shardKeys() : new Map<string, Fields>();
    for (const { name, type, options } of ours) {
      const indexes = await this.#askIfAllowed(`listing the indexes of ${name}`, [], (database) =>
        type === "view" || type === "timeseries" ? Promise.resolve([]) : database.collection(name).indexes(),
      );
      const unfit = collectionProblem({ type, options: options as Fields, indexes, shardKey: shardKeys.get(name) });
      if (unfit === undefined) continue;
      throw new InvalidStateError(`${name} in MongoDB at ${this.name} cannot belong to a tablet: ${unfit}`);
    }
  }

  /** Returns shard keys by collection. Empty when nothing is sharded, and for users without permission to read them. */
  async #shardKeys(): Promise<Map<string, Fields>> {
    return this.#askIfAllowed("reading how collections are sharded", new Map(), async ({ client, databaseName }) => {
      const prefix = `${databaseName}.`;
      const range = { _id: { $gte: prefix, $lt: `${prefix}\uffff` } };
      const collections = client.db("config").collection<StoredDocument & { _id: string }>("collections");
      const sharded = await collections.find(range).toArray();
      // Old servers keep the entries of dropped collections.
      const live = sharded.filter(({ dropped }) => dropped !== true);
      return new Map(live.map(({ _id, key }) => [String(_id).slice(prefix.length), key as Fields]));
    });
  }

  collections(prefix: string): Promise<string[]> {
    return this.#ask("listing collections", async (database) => {
      const all = await database.listCollections({}, { nameOnly: true, ...this.#inSession }).toArray();
      return all.map(({ name }) => name).filter((name) => name.startsWith(prefix));
    });
  }

  get(collection: string, id: string | number): Promise<StoredDocument | undefined> {
    return this.#ask(`reading ${collection}`, async (database) => {
      const document = await documents(database, collection).findOne({ _id: id }, this.#inSession);
      return (document as StoredDocument | null) ?? undefined;
    });
  }

  find(
    collection: string,
    { limit, descending = false, ...range }: Range & { readonly limit: number; readonly descending?: boolean },
  ): Promise<StoredDocument[]> {
    return this.#ask(`reading ${collection}`, async (database) => {
      const found = documents(database, collection)
        .find(filterOf(range), { batchSize: limit, ...this.#inSession })
        .sort({ _id: descending ? -1 : 1 })
        .limit(limit);
      return (await found.toArray()) as StoredDocument[];
    });
  }

  insert(collection: string, document: StoredDocument): Promise<boolean> {
    return this.#ask(`inserting into ${collection}`, async (database) => {
      try {
        await documents(database, collection).insertOne(document);
        return true;
      } catch (error) {
        if (error instanceof MongoServerError && error.code === DUPLICATE_KEY) return false;
        throw error;
      }
    });
  }

  update(collection: string, id: string, where: Fields, { set, increment }: DocumentChange): Promise<boolean> {
    return this.#ask(`updating ${collection}`, async (database) => {
      // Old servers reject an empty $set.
      const change = { $inc: { [increment]: 1 }, ...(Object.keys(set).length > 0 ? { $set: set } : {}) };
      const { matchedCount } = await documents(database, collection).updateOne({ ...where, _id: id }, change as Fields);
      return matchedCount === 1;
    });
  }

  write(collection: string, writes: readonly ViewWrite[]): Promise<WriteResult> {
    return this.#ask(`writing to ${collection}`, async (database) => {
      try {
        await documents(database, collection).bulkWrite(writes.map(operationOf), { ordered: false });
        return { present: [] };
      } catch (error) {
        return resultOf(error, writes);
      }
    });
  }

  delete(collection: string, range: Range): Promise<void> {
    return this.#ask(`deleting from ${collection}`, async (database) => {
      await documents(database, collection).deleteMany(filterOf(range));
    });
  }

  index(collection: string, fields: readonly string[]): Promise<void> {
    return this.#ask(`making an index of ${collection}`, async (database) => {
      await documents(database, collection).createIndex(Object.fromEntries(fields.map((field) => [field, 1])));
    });
  }

  close(): Promise<void> {
    return this.#database.client.close();
  }

  /**
   * Like `#ask`, for optional information; returns `otherwise` when the server lacks it or the user may not read it.
   */
  async #askIfAllowed<T>(what: string, otherwise: T, operation: (database: Db) => Promise<T>): Promise<T> {
    try {
      return await this.#ask(what, operation);
    } catch (error) {
      if (error instanceof InvalidStateError) return otherwise;
      throw error;
    }
  }

  async #ask<T>(what: string, operation: (database: Db) => Promise<T>): Promise<T> {
    try {
      return await operation(this.#database);
    } catch (error) {
      if (isRefusal(error)) {
        throw refusal(this.name, what, error);
      }
      throw new LostAnswerError(`${what}: ${messageOf(error)}`, { cause: error });
    }
  }
}

function documents(database: Db, collection: string): Collection<StoredDocument> {
  return database.collection<StoredDocument>(collection);
}

function filterOf({ after, below, kinds }: Range): Filter<StoredDocument> {
  const between = { ...(after === undefined ? {} : { $gt: after }), ...(below === undefined ? {} : { $lt: below }) };
  return {
    ...(Object.keys(between).length > 0 ? { _id: between } : {}),
    ...(kinds === undefined ? {} : { kind: { $in: kinds } }),
  } as Filter<StoredDocument>;
}

function operationOf({ id, seq, document }: ViewWrite): AnyBulkWriteOperation<StoredDocument> {
  // A document whose `_seq` was removed manually counts as older.
  const filter = { _id: id, _seq: { $not: { $gte: seq } } } as Filter<StoredDocument>;
  if (document === null) return { deleteOne: { filter } };
  // When the stored `_seq` is not lower, the filter matches nothing and the upsert fails because the id exists.
  return { replaceOne: { filter, replacement: { _id: id, ...document, _seq: seq }, upsert: true } };
}

/** Returns the writes that were not done; all others were done. Throws when the outcome is unknown. */
function resultOf(error: unknown, writes: readonly ViewWrite[]): WriteResult {
  const isBulk = error instanceof MongoBulkWriteError;
  if (isBulk && error.result.getWriteConcernError() !== undefined) throw error;
  const failures = isBulk ? [error.writeErrors].flat() : [];
  if (failures.length === 0) {
    // A failed command has one code for all its writes; the driver wraps it in a MongoBulkWriteError.
    if (!(error instanceof MongoServerError) || !isNotDone(error.code)) throw error;
    return { present: [], refused: `${messageOf(error)} (code ${error.code})` };
  }
  if (failures.some(({ code }) => code !== DUPLICATE_KEY && !isNotDone(code))) throw error;
  const [present, refused] = [[] as ViewWrite[], failures.find(({ code }) => code !== DUPLICATE_KEY)];
  for (const { code, index } of failures) if (code === DUPLICATE_KEY) present.push(writes[index] as ViewWrite);
  return { present, refused: refused && `${refused.errmsg} (code ${refused.code})` };
}

/** Returns true when the code means that the operation had no effect and will have none. */
function isNotDone(code: unknown): boolean {
  return REFUSED_CODES.includes(code) || NOT_DONE_CODES.includes(code);
}

function isRefusal(error: unknown): boolean {
  if (error instanceof MongoServerError) return REFUSED_CODES.includes(error.code);
  return !(error instanceof MongoError) || error instanceof MongoInvalidArgumentError;
}
