import { X509Certificate } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import {
  type BackoffLimits,
  backoffMs,
  hostPortOf,
  InvalidArgumentError,
  type Logger,
  messageOf,
  quoted,
  silentLogger,
  transportMessage,
  UnavailableError,
} from "@diskmesh/domain";
import { CurrentTls, type TlsFiles } from "@diskmesh/tls";
import type { ConnectionOptions, NatsConnection as Link } from "nats";
import { whyRefused } from "./server-version.js";
import { quotedSubject } from "./subjects.js";

export interface NatsOptions {
  /** Addresses as "host:port" or "tls://host:port", tried in turn. */
  readonly servers: readonly string[];
  readonly tls: TlsFiles;
  /** Name of the config section, for messages about `tls`. */
  readonly tlsSection?: string;
  /** Client name in the server's monitoring. */
  readonly name: string;
  /** Limits of the wait between connection attempts. */
  readonly reconnect?: BackoffLimits;
  readonly log?: Logger;
}

export interface Subscription {
  unsubscribe(): void;
}

export interface Message {
  readonly subject: string;
  readonly data: Uint8Array;
  /** Subject for the answer; empty when no answer is expected. */
  readonly reply: string;
  /** True for the server's own answer to a message with `reply` that had no subscriber. */
  readonly isNoResponder: boolean;
}

export type MessageHandler = (message: Message) => void;

const CONNECT_TIMEOUT_MS = 5_000;
const FLUSH_TIMEOUT_MS = 1_000;
/** Delay before a refused subscription is repeated, because an operator may permit it without closing the connection. */
const SUBSCRIBE_AGAIN_MS = 2_000;
const RECONNECT: BackoffLimits = { minDelayMs: 2_000, maxDelayMs: 10_000 };

// The connection counts as lost after two unanswered pings, so within 15 s.
const PING_INTERVAL_MS = 5_000;
const PINGS_UNANSWERED = 2;

/** Server names that stock agents accept. Other certificates of the CA must not pass for a NATS server. */
const SERVER_NAME_PATTERN = /^[a-zA-Z0-9*-]*\.nats\.bosh-internal$/;

/**
 * Opens a connection that lasts until it is closed. Throws only for options that can never work. While no server is
 * reached, subscriptions wait and publishing fails.
 */
export async function connectNats(options: NatsOptions): Promise<NatsConnection> {
  if (options.servers.length === 0) throw new InvalidArgumentError("no NATS server is named: give at least one");
  const servers = options.servers.map(parseServer);
  return new NatsConnection(options, servers, CurrentTls.open(options.tls, options.log, options.tlsSection));
}

interface Server {
  readonly address: string;
  readonly host: string;
}

interface Entry {
  readonly subject: string;
  readonly handler: MessageHandler;
  /** True while the server refuses the subscription. */
  isRefused?: boolean;
  unsubscribe?: () => void;
}

/**
 * The process's connection to NATS. Does not use the library's reconnect, which buffers messages published while
 * disconnected and sends them later, when they may be outdated.
 */
export class NatsConnection {
  readonly #options: NatsOptions;
  readonly #log: Logger;
  readonly #entries = new Set<Entry>();
  readonly #connectListeners = new Set<() => void>();
  readonly #disconnectListeners = new Set<() => void>();
  readonly #changeListeners = new Set<(why: string | undefined) => void>();
  readonly #closing = new AbortController();
  /** Reason why the connection is down; undefined when it is up. */
  #why: string | undefined = "it is not connected yet";
  #link: Link | undefined;
  /** Serial number of the server's last certificate, in hex. */
  #serverSerial = "";
  /** Serial number of our certificate on this link, in hex. */
  #ownSerial = "";

  constructor(
    options: NatsOptions,
    servers: readonly Server[],
    private readonly tls: CurrentTls,
  ) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    // A revocation closes the link at once; other changes of the files take effect with the next connection.
    tls.onChange(() => {
      if (tls.isRevoked(this.#serverSerial) || tls.isRevoked(this.#ownSerial)) void this.#link?.close();
    });
    void this.#keepConnected(servers);
  }

  get isConnected(): boolean {
    return this.#link !== undefined;
  }

  /** Calls back for each message on a subject, across reconnects, until unsubscribed. */
  subscribe(subject: string, handler: MessageHandler): Subscription {
    const entry: Entry = { subject, handler };
    this.#entries.add(entry);
    if (this.#link) this.#activate(this.#link, entry);
    return {
      unsubscribe: () => {
        this.#entries.delete(entry);
        entry.unsubscribe?.();
        if (entry.isRefused) this.#lookForRefusals();
      },
    };
  }

  /** Sends at once or throws UnavailableError; nothing is buffered. */
  publish(subject: string, data: Uint8Array, options: { readonly reply?: string } = {}): void {
    if (!this.#link || this.#link.isClosed())
      throw new UnavailableError("NATS is not connected: nothing was sent; try again when it is back");
    try {
      this.#link.publish(subject, data, options);
    } catch (error) {
      throw new UnavailableError(`NATS did not accept a message of ${data.length} bytes: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** Resolves when connected, at once if so already; rejects with the signal's reason. */
  whenConnected(signal: AbortSignal): Promise<void> {
    if (this.#link) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const forget = this.onConnected(() => settle(resolve));
      const aborted = () => settle(() => reject(signal.reason));
      const settle = (done: () => void) => {
        forget();
        signal.removeEventListener("abort", aborted);
        done();
      };
      if (signal.aborted) aborted();
      else signal.addEventListener("abort", aborted);
    });
  }

  /** Calls back after each connect, once subscriptions are in place. Returns a function that removes the listener. */
  onConnected(listener: () => void): () => void {
    this.#connectListeners.add(listener);
    return () => this.#connectListeners.delete(listener);
  }

  /**
   * Calls back after each loss of the connection, and finally on close. Returns a function that removes the listener.
   */
  onDisconnected(listener: () => void): () => void {
    this.#disconnectListeners.add(listener);
    return () => this.#disconnectListeners.delete(listener);
  }

  /**
   * Calls back now and at each change with the reason why the connection is down or lacks a subscription, or undefined
   * when neither is so. Returns a function that removes the listener.
   */
  onChange(listener: (why: string | undefined) => void): () => void {
    this.#changeListeners.add(listener);
    listener(this.#why);
    return () => this.#changeListeners.delete(listener);
  }

  /** Flushes published messages, then disconnects for good. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.tls.close();
    const link = this.#link;
    if (!link) return;
    await Promise.race([link.flush().catch(() => {}), sleep(FLUSH_TIMEOUT_MS, undefined, { ref: false })]);
    await link.close();
  }

  async #keepConnected(servers: readonly Server[]): Promise<void> {
    const { reconnect = RECONNECT } = this.#options;
    let failures = 0;
    for (let attempt = 0; !this.#closing.signal.aborted; attempt++) {
      const server = servers[attempt % servers.length] as Server;
      try {
        await this.#connectOnce(server);
        failures = 0;
      } catch (error) {
        const why = whyNotConnected(error, this.#options);
        this.#log.warn({ server: server.address, error: why }, "NATS connection failed");
        this.#changed(`${server.address}: ${why}`);
      }
      await sleep(backoffMs(failures++, reconnect), undefined, { signal: this.#closing.signal }).catch(() => {});
    }
  }

  /** Connects, and returns when that connection is lost. */
  async #connectOnce(server: Server): Promise<void> {
    // Imported on demand: the client is large, and an agent without mbus never needs it.
    const { connect } = await import("./nats-client.js");
    const { serialNumber } = new X509Certificate(this.tls.material.cert);
    const link = await connect(
      connectionOptions(this.#options, server, this.tls, (certificate) => this.#checkRevoked(certificate)),
    );
    if (this.#closing.signal.aborted) return link.close();
    await this.#checkServer(link);
    this.#ownSerial = serialNumber;
    this.#link = link;
    void this.#reportErrors(link);
    for (const entry of this.#entries) {
      entry.isRefused = false;
      this.#activate(link, entry);
    }
    this.#log.info({ server: server.address }, "NATS connection opened");
    notify(this.#connectListeners);
    this.#changed(undefined);
    const reason = await link.closed();
    this.#link = undefined;
    if (!this.#closing.signal.aborted)
      this.#log.warn({ server: server.address, error: reason && messageOf(reason) }, "NATS connection lost");
    notify(this.#disconnectListeners);
    this.#changed(`${server.address}: ${reason ? messageOf(reason) : "the connection was lost"}`);
  }

  #checkRevoked({ serialNumber }: PeerCertificate): Error | undefined {
    this.#serverSerial = serialNumber;
    const text = `the server's certificate with the serial number ${serialNumber} is revoked`;
    return this.tls.isRevoked(serialNumber) ? new Error(text) : undefined;
  }

  #changed(why: string | undefined): void {
    this.#why = why;
    for (const listener of [...this.#changeListeners]) listener(why);
  }

  /** Closes the link and throws when the server's version does not enforce our permissions. */
  async #checkServer(link: Link): Promise<void> {
    const refused = whyRefused(link.info?.version ?? "");
    if (refused === undefined) return;
    await link.close();
    throw new UnavailableError(refused);
  }

  #activate(link: Link, entry: Entry): void {
    const subscription = link.subscribe(entry.subject, {
      callback: (error, message) => {
        if (error) {
          void this.#subscribeAgain(link, entry, error);
          return;
        }
        try {
          const { subject, data, reply = "", headers } = message;
          entry.handler({ subject, data, reply, isNoResponder: headers?.code === 503 });
        } catch (thrown) {
          // An exception thrown into the library would stop the connection's reader.
          this.#log.warn(
            { subject: quotedSubject(message.subject), error: messageOf(thrown) },
            "NATS message handler failed",
          );
        }
      },
    });
    entry.unsubscribe = () => {
      if (!link.isClosed()) subscription.unsubscribe();
    };
  }

  /** Repeats a refused subscription until the server permits it or the link is closed. */
  async #subscribeAgain(link: Link, entry: Entry, error: Error): Promise<void> {
    entry.isRefused = true;
    this.#changed(
      `connected, but the server refuses the subscription to ${quotedSubject(entry.subject)}: permit it to this process's user, and reload the server (${messageOf(error)})`,
    );
    await sleep(SUBSCRIBE_AGAIN_MS, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {});
    if (this.#closing.signal.aborted || this.#link !== link || !this.#entries.has(entry)) return;
    entry.isRefused = false;
    this.#activate(link, entry);
    // The server refuses a subscription before it answers the flush.
    await link.flush().catch(() => {});
    if (this.#link === link) this.#lookForRefusals();
  }

  #lookForRefusals(): void {
    if (this.#link !== undefined && ![...this.#entries].some(({ isRefused }) => isRefused)) this.#changed(undefined);
  }

  async #reportErrors(link: Link): Promise<void> {
    for await (const status of link.status())
      if (status.type === "error")
        this.#log.warn({ error: String(status.data), ...about(status) }, "NATS server error received");
  }
}

function connectionOptions(
  options: NatsOptions,
  server: Server,
  { material: { ca, cert, key } }: CurrentTls,
  checkRevoked: (certificate: PeerCertificate) => Error | undefined,
): ConnectionOptions {
  const tls = {
    ca: String(ca),
    cert: String(cert),
    key: String(key),
    // Neither library declares this option. `nats` passes it to node:tls, whose default check does not know the host of
    // an already open socket.
    checkServerIdentity: (_host: string, certificate: PeerCertificate) =>
      checkServer(server.host, certificate) ?? checkRevoked(certificate),
  };
  return {
    servers: [server.address],
    tls,
    name: options.name,
    timeout: CONNECT_TIMEOUT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: PINGS_UNANSWERED,
    reconnect: false,
    ignoreClusterUpdates: true,
    noAsyncTraces: true,
  };
}

function checkServer(host: string, certificate: PeerCertificate): Error | undefined {
  const wrongHost = checkServerIdentity(host, certificate);
  if (wrongHost) return wrongHost;
  const { CN: name } = certificate.subject;
  if (typeof name === "string" && SERVER_NAME_PATTERN.test(name)) return undefined;
  return new Error(
    `the server's certificate is for ${quoted(String(name))}, not for a NATS server: its common name must end in .nats.bosh-internal`,
  );
}

function parseServer(text: string): Server {
  const address = text.replace(/^(?:tls|nats):\/\//, "");
  const { host } = hostPortOf(address) ?? {};
  if (host === undefined) throw new InvalidArgumentError('a NATS server\'s address is malformed: give "host:port"');
  return { address, host };
}

/** Describes an error of the server or the library for people. */
function whyNotConnected(error: unknown, { name, tls }: NatsOptions): string {
  const text = transportMessage(messageOf(error));
  if (!/authorization violation/i.test(text)) return text;
  return `the server has no user for ${name}'s certificate ${quoted(tls.certFile)}: add a user named like the certificate's URI:spiffe://diskmesh/<role>, and reload the server (${text})`;
}

function about(status: { permissionContext?: { operation: string; subject: string } }): object {
  const { permissionContext: context } = status;
  return context ? { operation: context.operation, subject: quotedSubject(context.subject) } : {};
}

function notify(listeners: ReadonlySet<() => void>): void {
  for (const listener of [...listeners]) listener();
}
