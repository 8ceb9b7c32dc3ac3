import type { AddressInfo, Socket } from "node:net";
import {
  CancelledError,
  DomainError,
  formatHostPort,
  type Logger,
  MIB_BYTES,
  messageOf,
  UnauthenticatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { REQUEST_ID_HEADER, RequestIds } from "@diskmesh/rpc";
import { type ReadinessReport, systemClock } from "@diskmesh/service";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import { CurrentTls, readServerTlsFiles } from "@diskmesh/tls";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import type { DirectorConfig } from "../config/config.js";
import type { HttpConfig } from "../config/http-config.js";
import { DIRECTOR_LIMITS, type DirectorLimits } from "../config/limits.js";
import { UPLOADS_PATH } from "../instance-logs/log-files.js";
import { refuseCrossSite } from "../logins/cross-site.js";
import type { Login } from "../logins/login.js";
import { Logins } from "../logins/logins.js";
import { type Answer, send, text } from "./answer.js";
import { bytesOfBody, textOfBody } from "./body.js";
import { limitConnections } from "./connections.js";
import { JSON_TYPES, refuseOtherTypes } from "./content-type.js";
import type { Context } from "./context.js";
import { answerTo, frameworkAnswer } from "./http-error.js";
import { healthAnswer, infoAnswer } from "./info.js";
import { LeaderForwarder } from "./leader-forwarder.js";
import { takeLogs } from "./log-uploads.js";
import { guarded, PASSTHRU_PREFIX, passthruError, unservedPassthru } from "./passthru-answer.js";
import { RequestLog } from "./request-log.js";
import { mayChange, type Route } from "./route.js";
import { ServedRequest } from "./served-request.js";

declare module "fastify" {
  interface FastifyRequest {
    served: ServedRequest | undefined;
  }
  interface FastifyContextConfig {
    route?: Route;
    /** Set for requests about this process. They are not forwarded to the leader. */
    isOwn?: true;
    /** Set for requests that may change something although they have no login route; they get an audit log line. */
    changes?: true;
    /** Set for requests without a time limit. */
    isLong?: true;
  }
}

export interface HttpServerOptions {
  readonly config: DirectorConfig;
  readonly limits?: DirectorLimits;
  /** Throws UnavailableError while this process does not lead. */
  readonly current: () => Context;
  readonly report: () => ProcessReport & Pick<ReadinessReport, "why">;
  readonly routes: readonly Route[];
  readonly log: Logger;
}

const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Maximum size of a request's headers. The longest header is a UAA token of a few KiB. */
const MAX_HEADER_BYTES = 16 * 1_024;
/** Maximum size of a body other than a stemcell. A manifest is at most 1 MiB before escaping. */
const MAX_BODY_BYTES = 4 * MIB_BYTES;
/** Time until an idle connection is closed. */
const KEEP_ALIVE_TIMEOUT_MS = 10_000;
/** Clients of Ironic send `//v1` for an endpoint that is configured with a slash at its end. */
const DOUBLED_SLASH = new RegExp(`^/+(?=${PASSTHRU_PREFIX.slice(1)}(?:[/?]|$))`);
/** Maximum length of names, keys and digests in paths. */
const MAX_PARAM_LENGTH = 1_024;

/** The HTTPS API of a director, for the bosh CLI. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #config: HttpConfig;
  readonly #limits: DirectorLimits;
  readonly #logins: Logins;
  readonly #requestLog: RequestLog;
  readonly #requestIds = new RequestIds();
  readonly #tls: CurrentTls;
  /** The TLS files for connections between the services, which may differ from those of the HTTPS API. */
  readonly #meshTls: CurrentTls;
  readonly #toLeader: LeaderForwarder;
  readonly #fastify: FastifyInstance;

  constructor(options: HttpServerOptions, config: HttpConfig) {
    this.#options = options;
    this.#config = config;
    this.#limits = options.limits ?? DIRECTOR_LIMITS;
    this.#logins = new Logins(config, systemClock);
    this.#requestLog = new RequestLog(options.log);
    const { tls } = options.config;
    const files = { ...tls, ...config.tls };
    const section = config.tls === undefined ? "tls" : "http.tls";
    readServerTlsFiles(files, systemClock.nowMs(), section);
    this.#tls = CurrentTls.open(files, options.log, section);
    this.#meshTls = CurrentTls.open(tls);
    this.#toLeader = new LeaderForwarder(
      { mesh: this.#meshTls, own: this.#tls },
      config,
      this.#limits.http.leaderWaitMs,
    );
    this.#fastify = this.#build();
  }

  async listen(): Promise<void> {
    const { host, port } = this.#config.listen;
    await this.#fastify.listen({ host, port });
    const bound = this.#fastify.server.address() as AddressInfo;
    const address = formatHostPort({ host, port: bound.port });
    this.#options.log.info({ address }, "HTTPS server started");
  }

  /** Finishes requests under way and aborts those that exceed the drain timeout. */
  async close(): Promise<void> {
    const timer = setTimeout(() => this.#fastify.server.closeAllConnections(), this.#limits.http.drainTimeoutMs);
    await this.#fastify.close();
    clearTimeout(timer);
    this.#tls.close();
    this.#meshTls.close();
  }

  #build(): FastifyInstance {
    const { headersTimeoutMs } = this.#limits.http;
    const own = () => ({ cert: this.#tls.material.cert, key: this.#tls.material.key, minVersion: "TLSv1.2" }) as const;
    const app = fastify({
      https: {
        ...own(),
        handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: headersTimeoutMs,
        connectionsCheckingInterval: Math.min(1_000, headersTimeoutMs),
        // Disabled: ServedRequest enforces the timeout, because a stemcell upload may take long.
        requestTimeout: 0,
      },
      genReqId: ({ headers }) => this.#requestIds.of(headers[REQUEST_ID_HEADER]),
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
      bodyLimit: MAX_BODY_BYTES,
      forceCloseConnections: "idle",
      return503OnClosing: true,
      clientErrorHandler: refuseUnreadable,
      rewriteUrl: ({ url = "/" }) => url.replace(DOUBLED_SLASH, "/"),
      frameworkErrors: (error, _request, reply) => void send(reply, frameworkAnswer(error) ?? text("", 400)),
      routerOptions: {
        maxParamLength: MAX_PARAM_LENGTH,
        ignoreTrailingSlash: true,
        querystringParser: (query) => new URLSearchParams(query) as never,
      },
    });
    this.#tls.onChange(() => app.server.setSecureContext(own()));
    limitConnections(app.server);
    app.server.on("tlsClientError", (error) =>
      this.#options.log.debug({ error: messageOf(error) }, "HTTPS handshake failed"),
    );
    app.decorateRequest("served", undefined);
    // Vendor methods accept every verb, with arguments in the body.
    for (const method of ["GET", "HEAD", "TRACE"]) app.addHttpMethod(method, { hasBody: true, overrideExisting: true });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", { parseAs: "buffer" }, textOfBody);
    app.addHook("onRequest", async (request, reply) => {
      this.#begin(request, reply);
      if (!request.routeOptions.config.route?.isLinkable) refuseCrossSite(request.headers);
      return this.#forward(request, reply);
    });
    app.setErrorHandler((error, request, reply) => this.#fail(error, request, reply));
    app.setNotFoundHandler((request, reply) => {
      const path = pathOf(request);
      return send(
        reply,
        isOfPassthru(path) ? unservedPassthru(request.method, path) : text(`Endpoint '${path}' not found.`, 404),
      );
    });
    const { current, report, routes } = this.#options;
    app.get("/healthz", { config: { isOwn: true } }, async (_request, reply) => send(reply, healthAnswer("")));
    app.get("/readyz", { config: { isOwn: true } }, async (_request, reply) => send(reply, healthAnswer(report().why)));
    app.get("/info", async (request, reply) =>
      send(reply, infoAnswer(current(), await this.#loginIfAny(request), this.#config)),
    );
    for (const route of routes.filter(({ streams }) => streams !== true)) this.#add(app, route);
    void app.register(async (streaming) => {
      streaming.removeAllContentTypeParsers();
      streaming.addContentTypeParser("*", bytesOfBody);
      for (const route of routes.filter(({ streams }) => streams)) this.#add(streaming, route);
      // Not forwarded: only this director expects the upload.
      const ofUploads = {
        bodyLimit: Number.MAX_SAFE_INTEGER,
        config: { isOwn: true, isLong: true, changes: true },
      } as const;
      streaming.put(`${UPLOADS_PATH}/:upload`, ofUploads, async (request, reply) =>
        this.#send(request, reply, await takeLogs(current(), request)),
      );
    });
    return app as unknown as FastifyInstance;
  }

  #add(app: Pick<FastifyInstance, "route">, route: Route): void {
    const bodyLimit = route.streams ? Number.MAX_SAFE_INTEGER : MAX_BODY_BYTES;
    app.route({
      method: route.method,
      url: route.path,
      bodyLimit,
      config: { route, ...(route.isOwn === true && { isOwn: true }) },
      // Runs before the body is read, so that no body is read for an unauthenticated client.
      onRequest: async (request) => {
        const served = request.served as ServedRequest;
        if (!route.isOpen) await served.login();
        if (!route.isOpen && (!route.isOwn || this.#leads())) await served.authorise(route);
        refuseOtherTypes(request.headers, route.accepts ?? JSON_TYPES);
      },
      handler: async (request, reply): Promise<FastifyReply> =>
        this.#send(request, reply, await (request.served as ServedRequest).serve(route)),
    });
  }

  /** Writes the audit line before the response leaves, because the client may have disconnected. */
  #send(request: FastifyRequest, reply: FastifyReply, answer: Answer): FastifyReply {
    request.served?.within(() => this.#requestLog.answered(request, answer));
    return send(reply, answer);
  }

  #begin(request: FastifyRequest, reply: FastifyReply): void {
    const { current, report, log } = this.#options;
    const leads = () => this.#leads();
    const { route, isLong } = request.routeOptions.config;
    const { requestTimeoutMs } = this.#limits.http;
    // The leader ends a request that this director forwards, by the time limit of the called method.
    const maxAnswerMs = this.#leads() ? 0 : (route?.maxAnswerMs ?? 0);
    const timeoutMs = isLong || route?.streams ? undefined : requestTimeoutMs + maxAnswerMs;
    request.served = new ServedRequest({
      request,
      reply,
      current,
      leads,
      report,
      logins: this.#logins,
      timeoutMs,
      log,
    });
  }

  /** Forwards the request to the leader while another director leads, except for requests about this process. */
  async #forward(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
    const { served } = request;
    const { route, isOwn } = request.routeOptions.config;
    if (isOwn || served === undefined || request.is404 || this.#leads()) return undefined;
    // The login is checked before forwarding, because the leader would count all failed logins for the address of this
    // director.
    if (route !== undefined && !route.isOpen) await served.login();
    else if ((await this.#loginIfAny(request)) === undefined) delete request.headers.authorization;
    const { current } = this.#options;
    const { http, stemcells } = this.#limits;
    const idleTimeoutMs = route?.streams ? stemcells.idleTimeoutMs : http.requestTimeoutMs + (route?.maxAnswerMs ?? 0);
    const answer = await this.#toLeader
      .answer(request, current, served.signal, idleTimeoutMs)
      .catch((error: unknown) => {
        if (route?.isOwn === undefined || !(error instanceof UnavailableError)) throw error;
        return undefined;
      });
    if (answer === undefined) return undefined;
    served.within(() => this.#requestLog.forwarded(request, answer));
    served.answerBegins();
    if (!request.raw.complete) void reply.header("connection", "close");
    return send(reply, answer);
  }

  #leads(): boolean {
    try {
      this.#options.current();
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Returns the login; undefined for missing or invalid credentials. `bosh log-in` recognizes invalid credentials by an
   * answer without a user.
   */
  async #loginIfAny(request: FastifyRequest): Promise<Login | undefined> {
    if (request.headers.authorization === undefined) return undefined;
    try {
      return await request.served?.login();
    } catch (error) {
      if (!(error instanceof UnauthenticatedError)) throw error;
      this.#requestLog.failed({ error, request, status: 200, login: undefined, isKnown: false });
      return undefined;
    }
  }

  /** Records a refused change for the audit. Vendor methods record their own refusals. */
  #noteRefusal({ served, routeOptions, params }: FastifyRequest, error: unknown): void {
    const { route } = routeOptions.config;
    if (served?.who === undefined || route === undefined || !mayChange(route) || !this.#leads()) return;
    this.#options.current().refusals.note(`${route.method} ${route.path}`, served.asking, params, error);
  }

  #fail(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { served } = request;
    const error = wasLeft(thrown, request) ? (served?.signal.reason ?? gone(thrown)) : causeOfEnd(thrown, request);
    const known = error instanceof DomainError ? undefined : frameworkAnswer(error as Error);
    const path = pathOf(request);
    const isPassthru = isOfPassthru(path);
    const isKnown = known !== undefined;
    const answer: Answer = isPassthru
      ? passthruAnswer(error, known, request)
      : (known ?? answerTo(error, path, request.id));
    this.#requestLog.failed({ error, request, status: answer.status, login: served?.who?.name, isKnown });
    if (!isPassthru) this.#noteRefusal(request, error);
    // Closes the connection, because the server would otherwise wait for the rest of the unread body.
    if (!request.raw.complete) void reply.header("connection", "close");
    return send(reply, answer);
  }
}

/** Returns true when the client aborted its upload or stopped reading a list. Such an error needs no report. */
function wasLeft(thrown: unknown, { raw, served }: FastifyRequest): boolean {
  if (!(thrown instanceof Error)) return false;
  if (thrown === raw.errored) return true;
  return "code" in thrown && thrown.code === "ERR_STREAM_PREMATURE_CLOSE" && served?.signal.aborted === true;
}

/**
 * Returns the reason of the request's end, a disconnect or a timeout, if that end cancelled a call to another service;
 * otherwise returns the error.
 */
function causeOfEnd(thrown: unknown, { served }: FastifyRequest): unknown {
  const isOfRequest =
    thrown instanceof CancelledError && served?.signal.aborted && thrown.cause === served.signal.reason;
  return isOfRequest ? thrown.cause : thrown;
}

function gone(cause: unknown): CancelledError {
  return new CancelledError("the client closed the connection during its request", { cause });
}

function passthruAnswer(error: unknown, known: Answer | undefined, { id, headers }: FastifyRequest): Answer {
  return known === undefined
    ? passthruError(error, id, headers["user-agent"])
    : guarded(known.status, (error as Error).message);
}

function isOfPassthru(path: string): boolean {
  return `${path}/`.startsWith(`${PASSTHRU_PREFIX}/`);
}

function pathOf(request: FastifyRequest): string {
  return (request.url.split("?", 1)[0] ?? "").slice(0, 512);
}

const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.writable && error.code !== "ECONNRESET") {
    const status = UNREADABLE[error.code ?? ""] ?? "400 Bad Request";
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  }
  socket.destroySoon();
}
