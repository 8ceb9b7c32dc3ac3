import { X509Certificate } from "node:crypto";
import { type Logger, UnavailableError } from "@diskmesh/domain";
import { type Found, readFiles, WatchedFiles } from "@diskmesh/tls";
import { type Db, type MongoClient, ReadConcern } from "mongodb";
import { type AddressTls, checkTls, NO_TLS_FILES, newClient, type TlsOption, type TlsPaths } from "./client.js";

export interface CurrentDatabaseOptions {
  readonly url: string;
  readonly databaseName: string;
  /** For messages: host and database, never credentials. */
  readonly name: string;
  readonly paths: TlsPaths;
  /** Rejects when a database does not serve; asked of each connection before anything relies on it. */
  readonly tryOut: (database: Db) => Promise<unknown>;
  /** Says an error of the driver in words that hold no password. */
  readonly explain: (error: unknown) => Error;
  readonly log: Logger;
}

/** Runs an operation on the database, which stays connected until that has ended. */
export type UseDatabase = <T>(operation: (database: Db) => Promise<T>) => Promise<T>;

interface Link {
  readonly client: MongoClient;
  readonly database: Db;
  readonly tls: AddressTls;
  /** Operations under way. */
  users: number;
}

/**
 * The database of an address, by the TLS files of now. The driver reads those once for each client, so another client
 * takes the place of the former when they change: once it has been tried out, operations begin on it, and those that
 * began on the former end there.
 */
export class CurrentDatabase {
  readonly #options: CurrentDatabaseOptions;
  readonly #watched: WatchedFiles<TlsOption>;
  /** Whose operations have not ended. */
  readonly #former = new Set<Link>();
  #link: Link;
  /** Being tried out. */
  #next: MongoClient | undefined;
  #isClosed = false;

  private constructor(options: CurrentDatabaseOptions, link: Link) {
    this.#options = options;
    this.#link = link;
    this.#watched = new WatchedFiles({
      files: options.paths,
      inUse: () => this.#link.tls,
      onOther: (found) => this.#takeUp(found),
    });
  }

  /** Rejects as `explain` says it. */
  static async connect(options: CurrentDatabaseOptions): Promise<CurrentDatabase> {
    try {
      const tls = wholeOf(await readFiles(options.paths, NO_TLS_FILES));
      return new CurrentDatabase(options, await tried(newCheckedClient(options, tls), tls, options));
    } catch (error) {
      throw options.explain(error);
    }
  }

  readonly use: UseDatabase = async (operation) => {
    const link = this.#link;
    link.users += 1;
    try {
      return await operation(link.database);
    } finally {
      link.users -= 1;
      if (this.#former.has(link)) this.#closeUnused(link);
    }
  };

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watched.close();
    const clients = [...this.#former].map(({ client }) => client);
    if (this.#next !== undefined) clients.push(this.#next);
    await Promise.all([...clients.map(closeQuietly), this.#link.client.close()]);
  }

  async #takeUp(found: Found<TlsOption>): Promise<void> {
    const { log, name } = this.#options;
    try {
      const tls = wholeOf(found);
      this.#next = newCheckedClient(this.#options, tls);
      const link = await tried(this.#next, tls, this.#options);
      if (this.#isClosed) return await closeQuietly(link.client);
      const former = this.#link;
      this.#link = link;
      this.#former.add(former);
      this.#closeUnused(former);
    } catch (error) {
      if (!this.#isClosed) this.#watched.tell(log, this.#refusal(error));
      return;
    } finally {
      this.#next = undefined;
    }
    log.warn(aboutCertificate(this.#link.tls), `TLS files of MongoDB at ${name}: changed, and in use from now on`);
  }

  #refusal(error: unknown): string {
    const { explain, name } = this.#options;
    return `TLS files that the address of MongoDB at ${name} names have changed and cannot be taken up: ${explain(error).message}`;
  }

  #closeUnused(link: Link): void {
    if (link.users > 0) return;
    this.#former.delete(link);
    void closeQuietly(link.client);
  }
}

function newCheckedClient({ url, paths }: CurrentDatabaseOptions, tls: AddressTls): MongoClient {
  const client = newClient(url, tls);
  checkTls(tls, paths, client.options.passphrase);
  return client;
}

/** The client is closed when it cannot be used. */
async function tried(client: MongoClient, tls: AddressTls, options: CurrentDatabaseOptions): Promise<Link> {
  try {
    await client.connect();
    const database = databaseOf(client, options.databaseName);
    // The driver connects without talking to the database: this finds out whether it may.
    await options.tryOut(database);
    return { client, database, tls, users: 0 };
  } catch (error) {
    await closeQuietly(client);
    throw error;
  }
}

/** Each is of its own: the driver writes into a database's read concern what a session has seen. */
export function databaseOf(client: MongoClient, databaseName: string): Db {
  return client.db(databaseName, {
    writeConcern: { w: "majority", journal: true },
    readConcern: new ReadConcern("majority"),
    readPreference: "primary",
  });
}

async function closeQuietly(client: MongoClient): Promise<void> {
  await client.close().catch(() => {});
}

function wholeOf(found: Found<TlsOption>): AddressTls {
  const read = (option: TlsOption): Buffer => {
    const content = found[option];
    if (!(content instanceof Error)) return content;
    throw new UnavailableError(`${option} of the address of MongoDB: ${content.message}`, { cause: content });
  };
  return {
    tlsCAFile: read("tlsCAFile"),
    tlsCRLFile: read("tlsCRLFile"),
    tlsCertificateKeyFile: read("tlsCertificateKeyFile"),
  };
}

function aboutCertificate({ tlsCertificateKeyFile: pair }: AddressTls): object {
  if (pair.length === 0) return {};
  const { serialNumber, validTo } = new X509Certificate(pair);
  return { serialNumber, endsAt: new Date(validTo).toISOString() };
}
