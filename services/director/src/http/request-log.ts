import {
  DomainError,
  LEADER_ADDRESS,
  type Logger,
  messageOf,
  PermissionDeniedError,
  UnauthenticatedError,
} from "@diskmesh/domain";
import { shownRequest } from "@diskmesh/service";
import type { FastifyReply, FastifyRequest } from "fastify";
import { mayChange } from "./route.js";

export interface FailedRequest {
  readonly error: unknown;
  readonly request: FastifyRequest;
  readonly status: number;
  /** Undefined while nobody has logged in. */
  readonly login: string | undefined;
  /** It was refused by what reads requests. */
  readonly isKnown: boolean;
}

/** Refusals told one by one in a second; whoever is refused can come again as often as it likes, and must not fill the disk. */
const REFUSALS_PER_SECOND = 20;

/** What each line of a request has that may have changed something: by it an auditor finds them all. */
const AUDIT = { audit: "call" } as const;

/** Tells the log of requests that fail, and of those that may have changed something. */
export class RequestLog {
  #secondBeganMs = Number.NEGATIVE_INFINITY;
  #inSecond = 0;
  #notTold = 0;
  readonly #failed = new WeakSet<FastifyRequest>();

  constructor(private readonly log: Logger) {}

  /**
   * Bugs are errors with their stack, troubles of this director are warnings, and so is who was not let in; the rest is
   * info. Neither headers nor bodies nor queries: any of them may hold secrets.
   */
  failed({ error, request, status, login, isKnown }: FailedRequest): void {
    const { log } = this;
    this.#failed.add(request);
    const route = request.routeOptions.url ?? "unknown";
    const { method, id: requestId, ip: remoteAddress } = request;
    const { route: served } = request.routeOptions.config;
    const ofChange = served !== undefined && mayChange(served) && { ...AUDIT, request: shownRequest(request.params) };
    const who = login !== undefined && { login, authentication: request.served?.who?.by };
    const fields = { method, route, status, requestId, remoteAddress, ...who, ...ofChange };
    const said = { ...fields, error: messageOf(error) };
    if (error instanceof UnauthenticatedError || error instanceof PermissionDeniedError || isBraked(error))
      this.#refused(said);
    else if (isKnown) log.info(said, "a request over HTTPS could not be read");
    else if (!(error instanceof DomainError)) log.error({ ...fields, error }, "a request over HTTPS failed");
    else if (LEADER_ADDRESS in error.about) log.debug(said, "a request over HTTPS came to a standby");
    else if (status >= 500) log.warn(said, "a request over HTTPS failed");
    else log.info(said, "a request over HTTPS failed");
  }

  /** One that may have changed something; what failed was told of as it did. */
  answered(request: FastifyRequest, reply: FastifyReply): void {
    const { served, routeOptions, method, id: requestId, ip: remoteAddress } = request;
    const { route } = routeOptions.config;
    if (route === undefined || !mayChange(route) || this.#failed.has(request) || served?.who === undefined) return;
    const { name: login, by: authentication } = served.who;
    const taskId = /^\/tasks\/(\d+)$/.exec(String(reply.getHeader("location") ?? ""))?.[1];
    const fields = {
      ...AUDIT,
      method,
      route: route.path,
      status: reply.statusCode,
      ...(taskId !== undefined && { taskId: Number(taskId) }),
      requestId,
      remoteAddress,
      login,
      authentication,
      durationMs: Math.round(served.durationMs * 10) / 10,
      request: shownRequest(request.params),
    };
    this.log.info(fields, "a request was answered that may change something");
  }

  #refused(said: object): void {
    const nowMs = performance.now();
    if (nowMs - this.#secondBeganMs >= 1_000) {
      this.#secondBeganMs = nowMs;
      this.#inSecond = 0;
    }
    this.#inSecond += 1;
    if (this.#inSecond > REFUSALS_PER_SECOND) {
      this.#notTold += 1;
      return;
    }
    const fields = { ...said, audit: "refused", ...(this.#notTold > 0 && { notTold: this.#notTold }) };
    this.log.warn(fields, "a request over HTTPS was refused");
    this.#notTold = 0;
  }
}

/** Only logins are refused with a number too high before anybody is known. */
function isBraked(error: unknown): boolean {
  return error instanceof DomainError && error.reason === "RESOURCE_EXHAUSTED" && "address" in error.about;
}
