import { systemClock, UnavailableError } from "@diskmesh/domain";
import type { Schema } from "../documents/schema.js";
import type { Examined } from "../examine/examination.js";
import type { EventLog, TabletStorage } from "../storage/storage.js";
import type { IsOurs } from "./collections.js";
import { type DocumentServer, LostAnswerError } from "./document-server.js";
import { examineMongo } from "./examine.js";
import { MongoEventLog } from "./mongo-event-log.js";
import { MongoStorage, type MongoStorageLimits } from "./mongo-storage.js";
import { probe } from "./probe.js";

export interface MongoOptions {
  /** URL in the official driver's format; the default database is `diskmesh`. */
  readonly url: string;
  readonly tabletName: string;
  readonly limits?: Partial<MongoStorageLimits> | undefined;
}

/** Opens a tablet in a MongoDB-compatible database, which several processes may share; one of them leads. */
export function openMongoStorage({ url, tabletName, limits }: MongoOptions): TabletStorage {
  return new MongoStorage({ tabletName, limits, connect: (isOurs) => connectAndProbe(url, isOurs) });
}

/** Opens the event log of a tablet. */
export function openMongoEventLog({ url, tabletName }: MongoOptions): EventLog {
  return new MongoEventLog({ collection: `${tabletName}-events`, connect: () => connect(url) });
}

/** Reads a tablet that no process leads. Changes nothing. */
export async function examineMongoStorage(
  { url, tabletName }: MongoOptions,
  schema: Schema,
  leaseTimeMs: number,
): Promise<Examined> {
  const server = await connect(url);
  try {
    return await examineMongo({ server, tabletName, schema, leaseTimeMs, clock: systemClock });
  } finally {
    await server.close();
  }
}

/** The driver is imported on demand, because it is large and a tablet in a folder does not need it. */
async function connect(url: string, isOurs?: IsOurs): Promise<DocumentServer> {
  const { connectToMongo } = await import("./driver-server.js");
  return connectToMongo(url, isOurs);
}

async function connectAndProbe(url: string, isOurs: IsOurs): Promise<DocumentServer> {
  const server = await connect(url, isOurs);
  try {
    await probe(server);
    return server;
  } catch (error) {
    await server.close().catch(() => {});
    if (!(error instanceof LostAnswerError)) throw error;
    throw new UnavailableError(`MongoDB at ${server.name} did not answer when it was tried out: ${error.message}`, {
      cause: error,
    });
  }
}
