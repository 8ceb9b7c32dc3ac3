import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { type Db, MongoClient, ReadConcern } from "mongodb";
import { CONNECTIONS_MAX } from "./document-server.js";

/** Time per try in which the driver looks for a server that takes writes, unless the address sets it. */
const SELECTION_TIMEOUT_MS = 5_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** A connection counts as broken when an answer is due and nothing arrives for this time. */
const SOCKET_TIMEOUT_MS = 20_000;

/** Parses the address without opening a connection. The driver reads TLS files named in it once, when it connects. */
export function newClient(url: string): MongoClient {
  try {
    return new MongoClient(url, {
      ...(/[?&]appName=/i.test(url) ? {} : { appName: "diskmesh" }),
      // The tablet's protocol, not the driver, decides how to handle a lost answer.
      retryWrites: false,
      retryReads: false,
      ...(/[?&]serverSelectionTimeoutMS=/i.test(url) ? {} : { serverSelectionTimeoutMS: SELECTION_TIMEOUT_MS }),
      connectTimeoutMS: CONNECT_TIMEOUT_MS,
      socketTimeoutMS: SOCKET_TIMEOUT_MS,
      maxPoolSize: CONNECTIONS_MAX,
      // Connections may open concurrently, because the probe needs its requests to arrive at the same time.
      maxConnecting: CONNECTIONS_MAX,
      ignoreUndefined: true,
    });
  } catch (error) {
    // The driver quotes parts of the address, which may contain a password.
    const reason = messageOf(error);
    const shown = /[@/]/.test(reason) ? "the driver cannot parse it" : reason;
    throw new InvalidArgumentError(
      `the address of MongoDB is malformed: ${shown}; it must be like mongodb://host:27017/database`,
    );
  }
}

/**
 * Returns a new object for each call, because the driver writes a session's progress into a database's read concern.
 */
export function databaseOf(client: MongoClient, databaseName: string): Db {
  return client.db(databaseName, {
    writeConcern: { w: "majority", journal: true },
    readConcern: new ReadConcern("majority"),
    readPreference: "primary",
  });
}
