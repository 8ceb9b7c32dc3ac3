import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import type { CurrentTls } from "@diskmesh/tls";

export interface HttpListen {
  readonly host: string;
  readonly port: number;
}

/**
 * Maximum number of connections. Clients of health checks and metrics need few of them briefly; connections beyond the
 * limit are closed.
 */
const MAX_CONNECTIONS = 64;
const REQUEST_TIMEOUT_MS = 5_000;
const LIMITS = {
  headersTimeout: REQUEST_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  maxHeaderSize: 8_192,
  keepAliveTimeout: 1_000,
  connectionsCheckingInterval: 1_000,
};

/** A small HTTP server for monitoring. With `tls`, accepts only clients with a certificate. */
export class BriefHttp {
  readonly #server: Server;

  /** `key` is the config key of the address, for errors. */
  constructor(
    private readonly key: string,
    answer: RequestListener,
    private readonly tls?: CurrentTls,
  ) {
    this.#server = tls === undefined ? createServer(LIMITS, answer) : tlsServer(tls, answer);
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** Starts to answer, and returns the port. */
  async listen({ host, port }: HttpListen): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) =>
        reject(new InvalidStateError(`${this.key}: cannot listen on ${host}:${port}: ${messageOf(error)}`)),
      );
      this.#server.listen({ host, port }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    this.tls?.close();
  }
}

function tlsServer(tls: CurrentTls, answer: RequestListener): Server {
  const wanted = { requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3" } as const;
  const server = createTlsServer({ ...tls.material, ...wanted, ...LIMITS }, answer);
  tls.onChange(() => server.setSecureContext({ ...tls.material, minVersion: wanted.minVersion }));
  return server;
}
