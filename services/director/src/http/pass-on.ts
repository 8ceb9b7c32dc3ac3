import type { IncomingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import { checkServerIdentity, type PeerCertificate, rootCertificates } from "node:tls";
import {
  DomainError,
  hostPortOf,
  InvalidArgumentError,
  LEADER_ADDRESS,
  messageOf,
  UnavailableError,
} from "@diskmesh/domain";
import { type CurrentTls, identityOfAlternativeNames } from "@diskmesh/tls";
import type { FastifyRequest } from "fastify";
import type { HttpConfig } from "../config/http-config.js";
import type { Answer } from "./answer.js";

/** On what a director has passed on: nobody passes it on again. */
const PASSED_ON = "x-diskmesh-passed-on";
const ASK_AGAIN_MS = 100;
/** They are about one connection alone. What a client names in Connection is kept: it would unframe a body by that. */
const OF_CONNECTION = new Set([
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  PASSED_ON,
]);

/**
 * Passes requests on to the director that leads: clients know one address, and follow no redirect to another one. The
 * leader is at the host where its gRPC face is, and at the port where this one listens for HTTPS.
 */
export class PassOn {
  readonly #port: number;

  constructor(
    private readonly tls: { readonly mesh: CurrentTls; readonly own: CurrentTls },
    private readonly http: HttpConfig,
    private readonly leaderWaitMs: number,
  ) {
    this.#port = http.listen.port;
  }

  /**
   * Returns the leader's answer, its body as it comes; undefined when this director leads, or does so in the end. A
   * request between two leaders waits for the next one, if repeating it does no harm. `idleTimeoutMs` without a byte
   * end the request. Throws UnavailableError without a leader; without its answer the leader may have got the request,
   * or not.
   */
  async answer(
    request: FastifyRequest,
    current: () => unknown,
    signal: AbortSignal,
    idleTimeoutMs: number,
  ): Promise<Answer | undefined> {
    const untilMs = performance.now() + this.leaderWaitMs;
    for (;;) {
      const elsewhere = elsewhereBy(current);
      if (elsewhere === undefined) return undefined;
      if (request.headers[PASSED_ON] !== undefined) throw elsewhere;
      const leader = hostPortOf(elsewhere.about[LEADER_ADDRESS] ?? "");
      const failure = await (leader === undefined
        ? elsewhere
        : this.#ask(request, leader.host, signal, idleTimeoutMs).catch((error: Error) => error));
      if (!(failure instanceof Error)) return failure;
      if (performance.now() >= untilMs || !mayRepeat(failure, request)) throw failure;
      await delay(ASK_AGAIN_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }

  #ask(request: FastifyRequest, host: string, signal: AbortSignal, idleTimeoutMs: number): Promise<Answer> {
    const { method, url: path = "/" } = request.raw;
    const headers = { ...kept(request.headers), ...framing(request.headers), [PASSED_ON]: "1", connection: "close" };
    const place = { host, port: this.#port, method, path, headers, agent: false };
    const { mesh, own } = this.tls;
    const others = this.http.tls === undefined ? [] : [own.material.ca, ...rootCertificates];
    const tls = {
      ca: [mesh.material.ca, ...others],
      checkServerIdentity: (name: string, certificate: PeerCertificate) => this.#checkLeader(name, certificate),
    };
    return new Promise((resolve, reject) => {
      let connected = false;
      const fail = (error: Error): void => {
        const text = `this director stands by, and the one that leads did not answer: ${messageOf(error)}`;
        const rest = connected ? "; whether the request took effect is not known" : "; try again";
        reject(new UnavailableError(text + rest, { cause: error, ...(connected && { outcome: "unknown" }) }));
      };
      try {
        const passed = httpsRequest({ ...place, ...tls, signal, timeout: idleTimeoutMs }, (response) => {
          // From now on what fails ends the answer, and is no second one.
          passed.on("error", (error) => response.destroy(error));
          resolve({ status: response.statusCode ?? 502, headers: kept(response.headers), body: response });
        });
        passed.once("socket", (socket) =>
          // Not before: what was given to a leader that is not there could not be given to the next one.
          socket.once("secureConnect", () => {
            connected = true;
            if (request.raw.readableEnded) passed.end();
            else request.raw.pipe(passed);
          }),
        );
        passed.once("timeout", () => passed.destroy(new Error(`nothing came for ${idleTimeoutMs} ms`)));
        passed.once("error", fail);
      } catch (error) {
        reject(new InvalidArgumentError(`the request cannot be passed on: ${messageOf(error)}`, { cause: error }));
      }
    });
  }

  /** The leader is a director by its certificate, or, where that is of another authority, the host that it is called. */
  #checkLeader(host: string, certificate: PeerCertificate): Error | undefined {
    const { serialNumber } = certificate;
    if (this.tls.mesh.isRevoked(serialNumber)) return new Error(`its certificate, number ${serialNumber}, is revoked`);
    if (identityOfAlternativeNames(certificate.subjectaltname)?.role === "director") return undefined;
    return checkServerIdentity(host, certificate);
  }
}

/** Why the leader is another process than this; undefined when it is not, or when nothing serves at all. */
function elsewhereBy(current: () => unknown): DomainError | undefined {
  try {
    current();
  } catch (error) {
    if (error instanceof DomainError && LEADER_ADDRESS in error.about) return error;
  }
  return undefined;
}

function mayRepeat(error: Error, { raw: { method = "" } }: FastifyRequest): boolean {
  if (!(error instanceof DomainError) || !error.retryable) return false;
  return error.outcome !== "unknown" || method === "GET" || method === "HEAD";
}

function kept(headers: IncomingHttpHeaders): Record<string, string> {
  const lasting = Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name));
  return Object.fromEntries(lasting.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])));
}

/** Node frames no body of a GET, HEAD, DELETE or OPTIONS by itself: the leader would read it as the next request. */
function framing(headers: IncomingHttpHeaders): Record<string, string> {
  return headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" };
}
