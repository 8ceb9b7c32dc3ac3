import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { type Db, MongoClient, ReadConcern } from "mongodb";
import { CONNECTIONS_MAX } from "./document-server.js";

/** Time per attempt in which the driver searches for a writable server, unless the URL sets it. */
const SELECTION_TIMEOUT_MS = 5_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** Time without data after which a connection with a pending answer counts as broken. */
const SOCKET_TIMEOUT_MS = 20_000;

/** Parses the URL without connecting. When it connects, the driver reads the TLS files named in the URL once. */
export function newClient(url: string): MongoClient {
  try {
    return new MongoClient(url, {
      ...(/[?&]appName=/i.test(url) ? {} : { appName: "diskmesh" }),
      // The tablet's protocol decides how to handle a lost answer, so the driver must not retry.
      retryWrites: false,
      retryReads: false,
      ...(/[?&]serverSelectionTimeoutMS=/i.test(url) ? {} : { serverSelectionTimeoutMS: SELECTION_TIMEOUT_MS }),
      connectTimeoutMS: CONNECT_TIMEOUT_MS,
      socketTimeoutMS: SOCKET_TIMEOUT_MS,
      maxPoolSize: CONNECTIONS_MAX,
      // Permits concurrent connecting, because the probe needs its requests to arrive at the same time.
      maxConnecting: CONNECTIONS_MAX,
      ignoreUndefined: true,
    });
  } catch (error) {
    // The driver's message quotes parts of the URL, which may contain a password.
    const reason = messageOf(error);
    const shown = /[@/]/.test(reason) ? "the driver cannot parse it" : reason;
    throw new InvalidArgumentError(
      `the address of MongoDB is malformed: ${shown}; it must be like mongodb://host:27017/database`,
    );
  }
}

/**
 * Returns a new Db object for each call. The driver writes the progress of a session into the read concern of the Db
 * object, and a shared Db object would pass it on to other sessions.
 */
export function databaseOf(client: MongoClient, databaseName: string): Db {
  return client.db(databaseName, {
    writeConcern: { w: "majority", journal: true },
    readConcern: new ReadConcern("majority"),
    readPreference: "primary",
  });
}
