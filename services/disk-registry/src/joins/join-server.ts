import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import {
  DomainError,
  InvalidArgumentError,
  InvalidStateError,
  type Logger,
  messageOf,
  UnavailableError,
} from "@diskmesh/domain";
import { LineLimit } from "@diskmesh/service";
import { CurrentTls, type TlsFiles } from "@diskmesh/tls";
import type { Context } from "../calls/context.js";
import { joinHost } from "../handlers/joins/join-host.js";
import { ownAuthorityPem } from "../handlers/joins/own-authority.js";

const TIMEOUT_MS = 5_000;
const LIMITS = {
  headersTimeout: TIMEOUT_MS,
  requestTimeout: TIMEOUT_MS,
  handshakeTimeout: TIMEOUT_MS,
  maxHeaderSize: 4_096,
  connectionsCheckingInterval: 1_000,
  maxRequestsPerSocket: 1,
};
const MAX_CONNECTIONS = 64;
const MAX_CONCURRENT = 8;
const MAX_PER_SECOND = 50;
const MAX_BODY_BYTES = 8_192;
const MIN_VERSION = "TLSv1.3";

export interface JoinServerOptions {
  readonly tls: TlsFiles;
  /** Throws UnavailableError while this process does not lead. */
  readonly current: () => Context;
  readonly log: Logger;
}

/**
 * Answers hosts that have no certificate yet, over HTTPS. There is one request, `POST /v1/join`, apart from all methods
 * that need a certificate. The server sends its authority's certificate along, which the host's token names.
 */
export class JoinServer {
  readonly #lines: LineLimit;
  #running = 0;
  #second = 0;
  #ofSecond = 0;

  private constructor(
    private readonly server: Server,
    private readonly tls: CurrentTls,
    private readonly options: JoinServerOptions,
  ) {
    this.#lines = new LineLimit(options.log);
    server.on("request", (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        options.log.error({ error: messageOf(error) }, "join request failed");
        response.destroy();
      });
    });
    server.maxConnections = MAX_CONNECTIONS;
    server.setTimeout(2 * TIMEOUT_MS, (socket) => socket.destroy());
  }

  static async listen(listen: { host: string; port: number }, options: JoinServerOptions): Promise<JoinServer> {
    const tls = CurrentTls.open(options.tls, options.log);
    const material = async () => ({
      cert: `${tls.material.cert}\n${await ownAuthorityPem(options.tls)}`,
      key: tls.material.key,
      minVersion: MIN_VERSION as typeof MIN_VERSION,
    });
    const server = createServer({ ...LIMITS, ...(await material()) });
    tls.onChange(() => {
      material().then(
        (next) => server.setSecureContext(next),
        (error: unknown) =>
          options.log.error({ error: messageOf(error) }, "certificate of the join server not renewed"),
      );
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error) =>
        reject(
          new InvalidStateError(`join.listen: cannot listen on ${listen.host}:${listen.port}: ${messageOf(error)}`),
        ),
      );
      server.listen(listen, resolve);
    });
    return new JoinServer(server, tls, options);
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
    this.tls.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A client that goes away in the middle ends its own request alone.
    request.on("error", () => {});
    response.on("error", () => {});
    if (request.method !== "POST" || request.url !== "/v1/join")
      return send(response, 404, { error: "this server answers POST /v1/join and nothing else" });
    if (this.#isFull()) return send(response, 429, { error: "too many hosts join at once: try again in some seconds" });
    this.#running += 1;
    try {
      send(response, 200, await joinHost(this.options.current(), await bodyOf(request)));
    } catch (error) {
      this.#refuse(request, response, error);
    } finally {
      this.#running -= 1;
    }
  }

  #isFull(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (second !== this.#second) this.#ofSecond = 0;
    this.#second = second;
    this.#ofSecond += 1;
    return this.#ofSecond > MAX_PER_SECOND || this.#running >= MAX_CONCURRENT;
  }

  #refuse({ socket }: IncomingMessage, response: ServerResponse, error: unknown): void {
    const { log } = this.options;
    const address = socket.remoteAddress ?? "";
    const isKnown = error instanceof DomainError;
    if (!isKnown) log.error({ address, error }, "join request failed");
    else if (this.#lines.admits("hosts that join")) log.warn({ address, error: error.message }, "join request refused");
    const status = !isKnown
      ? 500
      : error instanceof InvalidArgumentError
        ? 400
        : error instanceof UnavailableError
          ? 503
          : 403;
    send(response, status, { error: isKnown ? error.message : "the registry failed: its log says why" });
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  await new Promise<void>((resolve, reject) => {
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
      else reject(new InvalidArgumentError(`the request is longer than ${MAX_BODY_BYTES} bytes`));
    });
    request.once("end", resolve);
    request.once("close", () => reject(new InvalidArgumentError("the request ended too early")));
  });
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new InvalidArgumentError("the request is not JSON");
  }
}

function send(response: ServerResponse, status: number, answer: object): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json", connection: "close" });
  response.end(JSON.stringify(answer));
}
