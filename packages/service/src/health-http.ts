import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import type { Readiness, ReadinessReport } from "./readiness.js";

export interface HealthListen {
  readonly host: string;
  readonly port: number;
}

/** Whoever asks after a health is nearby and brief; anybody else is cut off. */
const MAX_CONNECTIONS = 64;
const REQUEST_TIMEOUT_MS = 5_000;

/**
 * Health over plain HTTP, for those who have no gRPC: `/healthz` answers 200 while the process answers at all, `/readyz`
 * 200 when it is ready and 503 when not, with what it lacks. It tells nothing else, and takes nothing.
 */
export class HealthHttp {
  readonly #server: Server;

  constructor(private readonly readiness: Readiness) {
    const limits = { headersTimeout: REQUEST_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS, maxHeaderSize: 8_192 };
    this.#server = createServer(
      { ...limits, keepAliveTimeout: 1_000, connectionsCheckingInterval: 1_000 },
      this.#answer,
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** Starts to answer, and returns the port. */
  async listen({ host, port }: HealthListen): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) =>
        reject(new InvalidStateError(`health.listen: cannot listen on ${host}:${port}: ${messageOf(error)}`)),
      );
      this.#server.listen({ host, port }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  readonly #answer: RequestListener = ({ method, url }, response) => {
    const isRead = method === "GET" || method === "HEAD";
    const { status, body } = isRead ? answerTo(url ?? "", this.readiness.report()) : NO_METHOD;
    response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
    response.end(method === "HEAD" ? undefined : `${JSON.stringify(body)}\n`);
  };
}

const NO_METHOD = { status: 405, body: { error: "only GET and HEAD" } };

function answerTo(url: string, report: ReadinessReport): { status: number; body: object } {
  switch (url.split("?")[0]) {
    case "/healthz":
      return { status: 200, body: { alive: true } };
    case "/readyz":
      return { status: report.ready ? 200 : 503, body: readinessBody(report) };
    default:
      return { status: 404, body: { error: "ask for /healthz or /readyz" } };
  }
}

/** As /readyz answers. */
function readinessBody({ ready, standsByFor, needs }: ReadinessReport): object {
  const told = [...needs].map(([need, { met, why }]) => [
    need,
    { status: met === undefined ? "UNKNOWN" : met ? "SERVING" : "NOT_SERVING", ...(why ? { why } : {}) },
  ]);
  return { ready, ...(standsByFor === undefined ? {} : { standsByFor }), needs: Object.fromEntries(told) };
}
