import {
  DomainError,
  LEADER_ADDRESS,
  type Logger,
  messageOf,
  PermissionDeniedError,
  UnauthenticatedError,
} from "@diskmesh/domain";
import { LineLimit, shownRequest } from "@diskmesh/service";
import type { FastifyRequest } from "fastify";
import type { Answer } from "./answer.js";
import { mayChange } from "./route.js";

export interface FailedRequest {
  readonly error: unknown;
  readonly request: FastifyRequest;
  readonly status: number;
  /** Undefined before authentication. */
  readonly login: string | undefined;
  /** True when fastify refused the request before a handler, for example because the request is malformed. */
  readonly isKnown: boolean;
}

/**
 * Marks the audit line of each request that may have changed something, so that an auditor finds every such request.
 */
const AUDIT = { audit: "call" } as const;
/** Marks a forwarded request. The leader's log has the audit line under the same request id. */
const FORWARDED = { audit: "passed_on" } as const;

/** Logs failed requests and requests that may have changed something. */
export class RequestLog {
  readonly #limit: LineLimit;
  readonly #audited = new WeakSet<FastifyRequest>();

  constructor(private readonly log: Logger) {
    this.#limit = new LineLimit(log);
  }

  /**
   * Logs bugs as errors with their stack, failures of this director and refused logins as warnings, and other failures
   * as info. Headers, bodies and queries are omitted, because they may contain secrets. Lines are rate-limited per
   * login, or per address without a login, unless the request may have changed something.
   */
  failed({ error, request, status, login, isKnown }: FailedRequest): void {
    const { log } = this;
    const route = request.routeOptions.url ?? "unknown";
    const { method, id: requestId, ip: remoteAddress } = request;
    // A request whose handler returned was audited then, even if the response was lost.
    const ofChange = changes(request) && !this.#audited.has(request) && auditOf(request);
    const isOfStandby = error instanceof DomainError && LEADER_ADDRESS in error.about;
    const mayBeDone = !isKnown && !(error instanceof DomainError && error.outcome === "not_done");
    const caller = login === undefined ? `address ${remoteAddress}` : `login ${login}`;
    if (!isOfStandby && !(ofChange && mayBeDone) && !this.#limit.admits(caller)) return;
    const who = login !== undefined && { login, authentication: request.served?.who?.by };
    const fields = { method, route, status, requestId, remoteAddress, ...who, ...ofChange };
    const said = { ...fields, error: messageOf(error) };
    if (error instanceof UnauthenticatedError || error instanceof PermissionDeniedError || isRateLimited(error))
      log.warn({ ...said, audit: "refused" }, "HTTPS request refused");
    else if (isKnown) log.info(said, "malformed HTTPS request refused");
    else if (!(error instanceof DomainError)) log.error({ ...fields, error }, "HTTPS request failed");
    else if (isOfStandby) log.debug(said, "HTTPS request refused by a standby");
    else if (status >= 500) log.warn(said, "HTTPS request failed");
    else log.info(said, "HTTPS request failed");
  }

  /** Audits a request whose handler has returned, whether or not the client receives the response. */
  answered(request: FastifyRequest, answer: Answer): void {
    if (!changes(request)) return;
    this.#audited.add(request);
    this.log.info({ ...auditOf(request), ...fieldsOf(request, answer) }, "HTTPS request finished");
  }

  /** Logs a forwarded request with the client's address, which the leader does not see. */
  forwarded(request: FastifyRequest, answer: Answer): void {
    if (!changes(request)) return;
    this.log.info({ ...FORWARDED, ...fieldsOf(request, answer) }, "HTTPS request forwarded to the leader");
  }
}

function fieldsOf(request: FastifyRequest, { status, headers }: Answer): object {
  const { served, routeOptions, method, id: requestId, ip: remoteAddress } = request;
  const taskId = /^\/tasks\/(\d+)$/.exec(String(headers?.location ?? ""))?.[1];
  return {
    method,
    route: routeOptions.url,
    status,
    ...(taskId !== undefined && { taskId: Number(taskId) }),
    requestId,
    remoteAddress,
    ...(served?.who && { login: served.who.name, authentication: served.who.by }),
    durationMs: Math.round((served?.durationMs ?? 0) * 10) / 10,
  };
}

function auditOf({ params }: FastifyRequest): object {
  return { ...AUDIT, request: shownRequest(params) };
}

/**
 * Returns true when the request may change something. Requests without a BOSH route declare this in their own config.
 */
function changes({ routeOptions }: FastifyRequest): boolean {
  const { route, changes: ownChanges } = routeOptions.config;
  return route === undefined ? ownChanges === true : mayChange(route);
}

/** Returns true for a login refused by the rate limiter; only these refusals contain an address. */
function isRateLimited(error: unknown): boolean {
  return error instanceof DomainError && error.reason === "RESOURCE_EXHAUSTED" && "address" in error.about;
}
