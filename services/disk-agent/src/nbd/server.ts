import { once } from "node:events";
import { chmodSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { diskFullError, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { withinMs } from "@diskmesh/service";
import { IoCounters } from "../base/io-counters.js";
import type { DiskPart } from "../parts/disk-part.js";
import { NbdConnection, type NbdConnectionLimits } from "./connection.js";
import { clearDeadSocket, socketState } from "./dead-socket.js";
import type { NbdExport } from "./handshake.js";
import { shortSocketPath } from "./socket-path.js";

export interface NbdServerLimits extends NbdConnectionLimits {
  readonly maxConnections: number;
}

export interface NbdListenOptions {
  readonly socketPath: string;
  readonly served: NbdExport;
  readonly disk: DiskPart;
  readonly limits: NbdServerLimits;
  readonly log: Logger;
}

/** Operations of a server that an export uses. */
type ServedNbd = Pick<NbdServer, "close" | "hasSocket" | "restore">;

export type ListenNbd = (options: NbdListenOptions) => Promise<ServedNbd>;

/** Serves one disk on one Unix socket. */
export class NbdServer {
  #server: Server;
  readonly #listen: () => Promise<Server>;
  readonly #connections: Set<NbdConnection>;
  readonly #socketPath: string;
  readonly #shortName: AsyncDisposable;

  private constructor(options: {
    server: Server;
    listen: () => Promise<Server>;
    connections: Set<NbdConnection>;
    socketPath: string;
    shortName: AsyncDisposable;
  }) {
    this.#server = options.server;
    this.#listen = options.listen;
    this.#connections = options.connections;
    this.#socketPath = options.socketPath;
    this.#shortName = options.shortName;
  }

  /**
   * Listens at the path, and replaces the socket of a killed agent. Throws UnavailableError when another file is there,
   * or when it cannot listen. Counts requests in `io`.
   */
  static async listen(options: NbdListenOptions, io = new IoCounters()): Promise<NbdServer> {
    const { socketPath, served, disk, limits, log } = options;
    const connections = new Set<NbdConnection>();
    const accept = (socket: Socket) => {
      socket.on("error", (error) => log.info({ diskId: served.name, error: messageOf(error) }, "NBD socket failed"));
      const connection = new NbdConnection({ socket, served, disk, limits, log, io });
      connections.add(connection);
      void connection.run().finally(() => connections.delete(connection));
    };
    const shortName = await shortSocketPath(socketPath);
    const listen = async (): Promise<Server> => {
      try {
        const found = await clearDeadSocket(socketPath);
        if (found === "live") throw new Error("another process serves at this path");
        if (found === "something else") throw new Error("the path is not a socket; move the file away");
        const server = await bound(shortName.path, accept, limits.maxConnections);
        // Without a listener, a failed accept would end the process.
        server.on("error", (error) => log.warn({ diskId: served.name, error: messageOf(error) }, "NBD accept failed"));
        return server;
      } catch (error) {
        const text = `cannot serve disk ${served.name} at ${JSON.stringify(socketPath)}`;
        const noRoom = diskFullError(error, text, socketPath);
        throw noRoom ?? new UnavailableError(`${text}: ${messageOf(error)}`, { cause: error });
      }
    };
    try {
      return new NbdServer({ server: await listen(), listen, connections, socketPath, shortName });
    } catch (error) {
      await shortName[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Returns whether the path exists. */
  async hasSocket(): Promise<boolean> {
    const isThere = await lstat(this.#socketPath).catch((error: NodeJS.ErrnoException) => error.code !== "ENOENT");
    return isThere !== false;
  }

  /**
   * Listens again when the socket was removed or is dead, and returns true then. Existing connections continue. Throws
   * UnavailableError when it cannot listen.
   */
  async restore(): Promise<boolean> {
    const found = await socketState(this.#socketPath);
    if (found === "live") return false;
    if (found === "something else")
      throw new UnavailableError(`${JSON.stringify(this.#socketPath)} is no longer a socket; move the file away`);
    // Closes the former server first, because closing removes the file at the path.
    this.#server.close();
    this.#server = await this.#listen();
    return true;
  }

  /** Stops listening, answers running requests within the timeout, closes the connections and removes the socket. */
  async close(drainTimeoutMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const drained = Promise.all([...this.#connections].map((connection) => connection.drain()));
    await withinMs(drainTimeoutMs, drained);
    for (const connection of this.#connections) connection.close();
    await closed;
    await this.#shortName[Symbol.asyncDispose]();
  }
}

/** Returns a server that listens at the path, accessible to its owner only. */
async function bound(path: string, accept: (socket: Socket) => void, maxConnections: number): Promise<Server> {
  // allowHalfOpen, because a client may end its side and still read its last answers.
  const server = createServer({ allowHalfOpen: true }, accept);
  server.maxConnections = maxConnections;
  try {
    await once(server.listen(path), "listening");
    // Synchronous, like Node's own bind, because a round trip to another thread takes ten times as long.
    chmodSync(path, 0o600);
    return server;
  } catch (error) {
    server.close();
    throw error;
  }
}
