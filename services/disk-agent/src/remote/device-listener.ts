import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { formatHostPort, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { type Clock, LineLimit, withinMs } from "@diskmesh/service";
import { ByteReader, ConnectionEndedError } from "../nbd/byte-reader.js";
import { NbdConnection, type NbdConnectionLimits } from "../nbd/connection.js";
import { awaitStartTls, greetClient } from "../nbd/handshake.js";
import { KEEPALIVE_MS, secureServerSide } from "../nbd/tls.js";
import type { DeviceAccess } from "./device-access.js";
import { formatAnswer, parseShareRequest } from "./share-request.js";

/** A listener for holders on other hosts. */
export interface ListeningForHolders {
  readonly port: number;
  /** Throws UnavailableError while the listener cannot listen. */
  requireListening(): void;
  close(): Promise<void>;
}

export interface ListenForHoldersOptions {
  readonly access: Pick<DeviceAccess, "keyOf" | "open" | "answer">;
  readonly host: string;
  /** Port; 0 lets the system choose. */
  readonly port: number;
  readonly limits: NbdConnectionLimits;
  readonly clock: Pick<Clock, "sleep">;
  readonly log: Logger;
}

/** Listens for holders on other hosts. Tries again in the background while it cannot, as when the port is taken. */
export type ListenForHolders = (options: ListenForHoldersOptions) => Promise<ListeningForHolders>;

/**
 * Maximum connections without a proved key; the oldest ends when another comes. So idle connections of strangers keep
 * no holder out.
 */
const MAX_UNPROVED = 256;
/** Interval in ms of tries to listen. */
const RETRY_INTERVAL_MS = 1_000;

/**
 * Serves this host's devices to holders on other hosts, as NBD over TLS. A restarted agent listens on the same port, at
 * which the holders reconnect; while another process uses the port it waits, because holders know no other port. A
 * process that listens there instead cannot answer: it has no key.
 */
export class DeviceListener implements ListeningForHolders {
  port: number;
  readonly #options: ListenForHoldersOptions;
  readonly #refusals: LineLimit;
  readonly #connections = new Set<Socket>();
  readonly #unproved = new Set<Socket>();
  readonly #closing = new AbortController();
  #server: Server | undefined;
  #problem = "";

  private constructor(options: ListenForHoldersOptions) {
    this.#options = options;
    this.port = options.port;
    this.#refusals = new LineLimit(options.log);
  }

  static async start(options: ListenForHoldersOptions): Promise<DeviceListener> {
    const listener = new DeviceListener(options);
    if (!(await listener.#tryListen())) void listener.#retry();
    return listener;
  }

  requireListening(): void {
    if (this.#server === undefined) throw new UnavailableError(this.#problem);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const server = this.#server;
    const closed = new Promise<void>((resolve) => (server === undefined ? resolve() : server.close(() => resolve())));
    for (const socket of this.#connections) socket.destroy();
    await closed;
  }

  async #retry(): Promise<void> {
    const { clock } = this.#options;
    do await clock.sleep(RETRY_INTERVAL_MS, this.#closing.signal).catch(() => undefined);
    while (!this.#closing.signal.aborted && !(await this.#tryListen()));
  }

  async #tryListen(): Promise<boolean> {
    const { host, log } = this.#options;
    try {
      const server = await bound({ host, port: this.port }, (socket) => void this.#accept(socket));
      // Without a listener, a failed accept would end the process.
      server.on("error", (error) => log.warn({ error: messageOf(error) }, "accept of a holder's connection failed"));
      this.port = (server.address() as AddressInfo).port;
      if (this.#problem !== "") log.info({ host, port: this.port }, "listening for holders on other hosts again");
      this.#server = server;
      return true;
    } catch (error) {
      const address = formatHostPort({ host, port: this.port });
      const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
      const why = isTaken ? "another process has the port" : messageOf(error);
      const problem = `the agent cannot listen at ${address}, where other hosts reach this host's devices: ${why}; mend that, or set blockListen to another address`;
      if (this.#problem !== problem) log.error({ host, port: this.port }, problem);
      this.#problem = problem;
      return false;
    }
  }

  async #accept(raw: Socket): Promise<void> {
    if (this.#closing.signal.aborted) return void raw.destroy();
    const peer = raw.remoteAddress ?? "";
    this.#connections.add(raw);
    raw.on("error", () => undefined);
    raw.on("close", () => this.#connections.delete(raw));
    try {
      await this.#serve(raw);
    } catch (error) {
      if (!(error instanceof ConnectionEndedError) && this.#refusals.admits(peer))
        this.#options.log.info({ peer, error: messageOf(error) }, "holder's connection ended");
    } finally {
      raw.destroy();
    }
  }

  async #serve(raw: Socket): Promise<void> {
    const { access, limits, log } = this.#options;
    const { identity, socket, greeting } = await this.#proved(raw);
    const asked = parseShareRequest(identity);
    if (asked !== undefined) return tell(socket, formatAnswer(await access.answer(asked)), limits.negotiationTimeoutMs);
    const connection = new AbortController();
    const end = (): void => {
      connection.abort(new UnavailableError("the connection has ended"));
      socket.destroy();
    };
    connection.signal.addEventListener("abort", end);
    // Withdraws writes that wait for the device, because their client sends them again on its next connection.
    socket.on("close", end);
    const { served, part, leave } = await access.open(identity, connection);
    try {
      await new NbdConnection({ socket, served, disk: part, limits, log, greeting }).run();
    } finally {
      leave();
    }
  }

  async #proved(raw: Socket) {
    const { access, limits } = this.#options;
    const timer = setTimeout(() => raw.destroy(), limits.negotiationTimeoutMs);
    this.#unproved.add(raw);
    if (this.#unproved.size > MAX_UNPROVED) for (const oldest of [...this.#unproved].slice(0, 1)) oldest.destroy();
    try {
      const reader = new ByteReader(raw);
      const greeting = await greetClient(reader, raw);
      if (!(await awaitStartTls(reader, raw))) throw new ConnectionEndedError("the client left before TLS");
      reader.release();
      const secured = await secureServerSide(raw, (identity) => access.keyOf(identity), limits.negotiationTimeoutMs);
      secured.socket.on("error", () => undefined);
      return { ...secured, greeting };
    } finally {
      clearTimeout(timer);
      this.#unproved.delete(raw);
    }
  }
}

/** Sends an answer. Resolves once the client has left, or has had the time to. */
async function tell(socket: Socket, answer: string, timeoutMs: number): Promise<void> {
  socket.end(answer);
  // The end of the client is not seen otherwise.
  socket.resume();
  await withinMs(timeoutMs, once(socket, "close")).catch(() => undefined);
}

async function bound(address: { host: string; port: number }, accept: (socket: Socket) => void): Promise<Server> {
  const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS };
  const server = createServer(options, accept).listen(address);
  await once(server, "listening");
  return server;
}
