import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { type Db, MongoClient, ReadConcern } from "mongodb";
import { CONNECTIONS_MAX } from "./document-server.js";

/** How long the driver looks for a server that takes writes, per try, unless the address says otherwise. */
const SELECTION_TIMEOUT_MS = 5_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** A connection on which nothing comes for so long while an answer is due counts as broken. */
const SOCKET_TIMEOUT_MS = 20_000;

/** Parses the address and opens nothing yet. The driver reads the TLS files that it names once, when it connects. */
export function newClient(url: string): MongoClient {
  try {
    return new MongoClient(url, {
      ...(/[?&]appName=/i.test(url) ? {} : { appName: "diskmesh" }),
      // What a lost answer means is decided by the tablet's protocol, not by the driver.
      retryWrites: false,
      retryReads: false,
      ...(/[?&]serverSelectionTimeoutMS=/i.test(url) ? {} : { serverSelectionTimeoutMS: SELECTION_TIMEOUT_MS }),
      connectTimeoutMS: CONNECT_TIMEOUT_MS,
      socketTimeoutMS: SOCKET_TIMEOUT_MS,
      maxPoolSize: CONNECTIONS_MAX,
      // What is sent at once shall arrive at once, also at first: the probe needs it.
      maxConnecting: CONNECTIONS_MAX,
      ignoreUndefined: true,
    });
  } catch (error) {
    // The driver quotes parts of the address, in which there may be a password.
    const reason = messageOf(error);
    const shown = /[@/]/.test(reason) ? "the driver cannot parse it" : reason;
    throw new InvalidArgumentError(
      `the address of MongoDB is malformed: ${shown}; it must be like mongodb://host:27017/database`,
    );
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
