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

/** Marks a forwarded request, which no director forwards again. */
const FORWARDED = "x-diskmesh-passed-on";
const ASK_AGAIN_MS = 100;
/**
 * Headers that apply to a single connection. Headers that a client lists in Connection are kept, because a client could
 * otherwise remove the body's framing headers.
 */
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
  FORWARDED,
]);

/**
 * Forwards requests to the leading director, because clients know a single address and follow no redirect to another
 * host. The leader's HTTPS API is at the host of its gRPC API and at the HTTPS port of this director.
 */
export class LeaderForwarder {
  readonly #port: number;

  constructor(
    private readonly tls: { readonly mesh: CurrentTls; readonly own: CurrentTls },
    private readonly http: HttpConfig,
    private readonly leaderWaitMs: number,
  ) {
    this.#port = http.listen.port;
  }

  /**
   * Returns the leader's response with a streamed body; undefined when this director leads or becomes the leader. A
   * request during a leader change waits for the next leader if a repetition is harmless. `idleTimeoutMs` without a
   * byte ends the request. Throws UnavailableError without a leader. When the leader's response is missing, the leader
   * may or may not have received the request.
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
      if (request.headers[FORWARDED] !== undefined) throw elsewhere;
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
    const headers = { ...kept(request.headers), ...framing(request.headers), [FORWARDED]: "1", connection: "close" };
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
        const text = `this director is a standby, and the leader did not answer: ${messageOf(error)}`;
        const rest = connected ? "; whether the request took effect is not known" : "; try again";
        reject(new UnavailableError(text + rest, { cause: error, ...(connected && { outcome: "unknown" }) }));
      };
      try {
        const passed = httpsRequest({ ...place, ...tls, signal, timeout: idleTimeoutMs }, (response) => {
          // Later errors end the response that has begun.
          passed.on("error", (error) => response.destroy(error));
          resolve({ status: response.statusCode ?? 502, headers: kept(response.headers), body: response });
        });
        passed.once("socket", (socket) =>
          // The body is sent only after the TLS handshake, because a body sent to an absent leader could not be sent to
          // the next leader.
          socket.once("secureConnect", () => {
            connected = true;
            if (request.raw.readableEnded) passed.end();
            else request.raw.pipe(passed);
          }),
        );
        passed.once("timeout", () => passed.destroy(new Error(`the leader sent nothing for ${idleTimeoutMs} ms`)));
        passed.once("error", fail);
      } catch (error) {
        reject(
          new InvalidArgumentError(`the request cannot be forwarded to the leader: ${messageOf(error)}`, {
            cause: error,
          }),
        );
      }
    });
  }

  /**
   * Accepts the certificate of any director, or a certificate of another role or CA that is valid for the leader's host
   * name. Refuses revoked certificates.
   */
  #checkLeader(host: string, certificate: PeerCertificate): Error | undefined {
    const { serialNumber } = certificate;
    if (this.tls.mesh.isRevoked(serialNumber))
      return new Error(`the leader's certificate with the serial number ${serialNumber} is revoked`);
    if (identityOfAlternativeNames(certificate.subjectaltname)?.role === "director") return undefined;
    return checkServerIdentity(host, certificate);
  }
}

/**
 * Returns the error that names another process as the leader; undefined when this process leads or no director serves.
 */
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

/**
 * Returns the framing header. Node adds none to GET, HEAD, DELETE and OPTIONS, so the leader would parse the body as
 * the next request.
 */
function framing(headers: IncomingHttpHeaders): Record<string, string> {
  return headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" };
}
