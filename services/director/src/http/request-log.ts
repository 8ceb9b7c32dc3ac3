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
import { RefusalLog } from "./refusal-log.js";
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

/** What each line of a request has that may have changed something: by it an auditor finds them all. */
const AUDIT = { audit: "call" } as const;

/** Tells the log of requests that fail, and of those that may have changed something. */
export class RequestLog {
  readonly #refusals: RefusalLog;
  readonly #failed = new WeakSet<FastifyRequest>();

  constructor(private readonly log: Logger) {
    this.#refusals = new RefusalLog(log, "a request over HTTPS was refused");
  }

  /**
   * Bugs are errors with their stack, troubles of this director are warnings, and so is who was not let in; the rest is
   * info. Neither headers nor bodies nor queries: any of them may hold secrets.
   */
  failed({ error, request, status, login, isKnown }: FailedRequest): void {
    const { log } = this;
    this.#failed.add(request);
    const route = request.routeOptions.url ?? "unknown";
    const { method, id: requestId, ip: remoteAddress } = request;
    const ofChange = changes(request) && { ...AUDIT, request: shownRequest(request.params) };
    const who = login !== undefined && { login, authentication: request.served?.who?.by };
    const fields = { method, route, status, requestId, remoteAddress, ...who, ...ofChange };
    const said = { ...fields, error: messageOf(error) };
    if (error instanceof UnauthenticatedError || error instanceof PermissionDeniedError || isBraked(error))
      this.#refusals.refused(said);
    else if (isKnown) log.info(said, "a request over HTTPS could not be read");
    else if (!(error instanceof DomainError)) log.error({ ...fields, error }, "a request over HTTPS failed");
    else if (LEADER_ADDRESS in error.about) log.debug(said, "a request over HTTPS came to a standby");
    else if (status >= 500) log.warn(said, "a request over HTTPS failed");
    else log.info(said, "a request over HTTPS failed");
  }

  /** One that may have changed something; what failed was told of as it did. */
  answered(request: FastifyRequest, reply: FastifyReply): void {
    const { served, routeOptions, method, id: requestId, ip: remoteAddress } = request;
    const { config, url } = routeOptions;
    const needsLogin = config.route !== undefined;
    if (!changes(request) || this.#failed.has(request) || served === undefined || (needsLogin && !served.who)) return;
    const taskId = /^\/tasks\/(\d+)$/.exec(String(reply.getHeader("location") ?? ""))?.[1];
    const fields = {
      ...AUDIT,
      method,
      route: url,
      status: reply.statusCode,
      ...(taskId !== undefined && { taskId: Number(taskId) }),
      requestId,
      remoteAddress,
      ...(served.who && { login: served.who.name, authentication: served.who.by }),
      durationMs: Math.round(served.durationMs * 10) / 10,
      request: shownRequest(request.params),
    };
    this.log.info(fields, "a request was answered that may change something");
  }
}

/** One without a route of BOSH's is this process's own, and says itself that it changes something. */
function changes({ routeOptions }: FastifyRequest): boolean {
  const { route, changes: ownChanges } = routeOptions.config;
  return route === undefined ? ownChanges === true : mayChange(route);
}

/** Only logins are refused with a number too high before anybody is known. */
function isBraked(error: unknown): boolean {
  return error instanceof DomainError && error.reason === "RESOURCE_EXHAUSTED" && "address" in error.about;
}
