import {
  CancelledError,
  type Logger,
  PermissionDeniedError,
  TimeoutError,
  UnauthenticatedError,
} from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { FastifyReply, FastifyRequest } from "fastify";
import { formatScopes, isAllowed, type Operation, scopesFor, teamsOfLogin, teamsOfRight } from "../config/policy.js";
import type { Login } from "../logins/login.js";
import type { Logins } from "../logins/logins.js";
import { isOfPage } from "../logins/page-sessions.js";
import { CODES } from "../tasks/bosh-codes.js";
import type { Answer } from "./answer.js";
import type { Context } from "./context.js";
import { BadRequestError } from "./http-error.js";
import { type RequestSpan, startRequestSpan } from "./request-span.js";
import type { HttpCall, Route } from "./route.js";

export interface ServedRequestOptions {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly current: () => Context;
  readonly leads: () => boolean;
  readonly report: () => ProcessReport;
  readonly logins: Logins;
  /** Undefined for requests without a time limit. */
  readonly timeoutMs: number | undefined;
  readonly log: Logger;
}

/** A request from its first line until its response has been sent. */
export class ServedRequest {
  readonly #options: ServedRequestOptions;
  readonly #abort = new AbortController();
  #deadlineAtMs: number;
  readonly #startedMs = performance.now();
  readonly #span: RequestSpan;
  #timer: NodeJS.Timeout | undefined;
  #login: Login | undefined;
  /** The teams of the request's subject. */
  #teams: readonly string[] = [];

  constructor(options: ServedRequestOptions) {
    const { request, reply, timeoutMs } = options;
    this.#options = options;
    this.#deadlineAtMs = Number.POSITIVE_INFINITY;
    this.#span = startRequestSpan(request);
    if (timeoutMs !== undefined) this.#startTimer(timeoutMs);
    reply.raw.once("close", () => {
      clearTimeout(this.#timer);
      if (!reply.raw.writableFinished) this.#abort.abort(new CancelledError("the client has gone away"));
      this.#span.end(reply.raw.statusCode);
    });
  }

  /** Undefined before authentication. */
  get who(): Login | undefined {
    return this.#login;
  }

  get durationMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** Aborted when the client has disconnected or the request has timed out. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Stops the timeout, because a response that has begun may last as long as bytes flow. */
  answerBegins(): void {
    clearTimeout(this.#timer);
  }

  /** Authenticates the request; throws UnauthenticatedError. */
  async login(): Promise<Login> {
    const { logins, request } = this.#options;
    const { authorization, cookie, "sec-fetch-site": site } = request.headers;
    const isAtPage = isOfPage(request.routeOptions.url ?? "");
    const session = isAtPage ? await this.#notEnded(logins.sessions.loginOf(cookie)) : undefined;
    // Basic credentials of browsers are ignored at the page. Log out ends a session but cannot delete the Basic login
    // that a browser keeps.
    const isBrowserAtPage = isAtPage && site !== undefined;
    this.#login = session ?? (await this.#check(isBrowserAtPage ? undefined : authorization));
    return this.#login;
  }

  /** Returns the login of a session that its user has not ended. Only the leader can tell. */
  async #notEnded(login: Login | undefined): Promise<Login | undefined> {
    const { sessionId } = login?.session ?? {};
    if (sessionId === undefined || !this.#options.leads()) return login;
    const { tablet } = this.#options.current();
    return (await tablet.read(({ endedSessions }) => endedSessions.get(sessionId))) === undefined ? login : undefined;
  }

  #check(authorization: string | undefined): Promise<Login> {
    const { logins, request } = this.#options;
    // Undefined at run time when the connection was reset.
    const address: string | undefined = request.ip;
    if (address === undefined) throw new CancelledError("the client has gone away");
    return logins.of(authorization, address, this.#abort.signal);
  }

  async #beginSession(name: string, password: string): Promise<string> {
    this.#login = await this.#check(`Basic ${Buffer.from(`${name}:${password}`).toString("base64")}`);
    return this.#options.logins.sessions.begin(this.#login.name);
  }

  /** Throws PermissionDeniedError unless the login may call the route. */
  async authorise({ operation, teams }: Route): Promise<void> {
    const { deployment: name } = this.#options.request.params as { readonly deployment?: string };
    const { tablet } = this.#options.current();
    const deployment = name === undefined ? undefined : await tablet.read(({ deployments }) => deployments.get(name));
    if (deployment !== undefined) this.#teams = deployment.teams ?? [];
    else if (teams === "own") this.#teams = teamsOfLogin(this.#known().scopes, "any");
    if (operation !== undefined) this.require(operation);
  }

  /** Throws PermissionDeniedError unless the login may perform the operation. */
  require(operation: Operation, teams = this.#teams): void {
    if (this.#may(operation, teams)) return;
    const scopes = formatScopes(scopesFor(operation, this.#options.current().tablet.id, teams));
    throw new PermissionDeniedError(`Require one of the scopes: ${scopes}`, { about: { operation } });
  }

  serve(route: Route): Promise<Answer> {
    const { request } = this.#options;
    const params = request.params as Readonly<Record<string, string>>;
    const { current, report, timeoutMs } = this.#options;
    const [call, login] = [() => this.#call(route), () => this.#known()];
    const http: HttpCall = {
      get context() {
        return current();
      },
      // Getters, because `call` and `login` throw on an open route, which is served without authentication.
      get call() {
        return call();
      },
      get login() {
        return login();
      },
      report,
      query: request.query as URLSearchParams,
      request,
      param: (name) => params[name] ?? "",
      require: (operation, teams) => this.require(operation, teams),
      may: (operation, teams) => this.#may(operation, teams),
      callAs: (login) => {
        this.#login = login;
        return this.#call(route);
      },
      extend: (ms) => timeoutMs !== undefined && this.#startTimer(timeoutMs + ms),
      logIn: (name, password) => this.#beginSession(name, password),
    };
    return this.#span.within(() => route.serve(http));
  }

  /** Runs `work` in the request's span. */
  within<T>(work: () => T): T {
    return this.#span.within(work);
  }

  #may(operation: Operation, teams = this.#teams): boolean {
    return isAllowed(operation, this.#known().scopes, this.#options.current().tablet.id, teams);
  }

  #known(): Login {
    if (this.#login === undefined) throw new UnauthenticatedError("no credentials were given");
    return this.#login;
  }

  /** Throws UnauthenticatedError before authentication. */
  get asking() {
    const { name, by: authentication } = this.#known();
    const identity = { role: "operator", name } as const;
    return { identity, authentication, traceId: this.#span.traceId, requestId: this.#options.request.id };
  }

  #call({ operation, teams }: Route): CallContext {
    const { id } = this.#options.current().tablet;
    const isOfTeams = teams === "own" && operation !== undefined;
    return {
      ...this.asking,
      teams: isOfTeams ? teamsOfRight(operation, this.#known().scopes, id) : undefined,
      signal: this.#abort.signal,
      deadlineAtMs: this.#deadlineAtMs,
      contextId: contextIdOf(this.#options.request),
    };
  }

  /** Starts the request's time anew. */
  #startTimer(timeoutMs: number): void {
    clearTimeout(this.#timer);
    this.#deadlineAtMs = Date.now() + timeoutMs;
    this.#timer = setTimeout(() => this.#timeOut(timeoutMs), timeoutMs);
  }

  #timeOut(timeoutMs: number): void {
    const { request } = this.#options;
    this.#abort.abort(new TimeoutError(`the request took longer than ${timeoutMs} ms`));
    // Destroys the request, because the server would otherwise wait for the rest of a slow body.
    if (!request.raw.complete) request.raw.destroy();
  }
}

const MAX_CONTEXT_ID_LENGTH = 64;

/** Returns the client's id for a chain of requests. */
function contextIdOf({ headers }: FastifyRequest): string | undefined {
  const given = headers["x-bosh-context-id"];
  if (given === undefined || given === "") return undefined;
  if (typeof given === "string" && given.length <= MAX_CONTEXT_ID_LENGTH && /^[\x20-\x7e]+$/.test(given)) return given;
  throw new BadRequestError(
    `X-Bosh-Context-Id must have no more than ${MAX_CONTEXT_ID_LENGTH} characters of ASCII`,
    CODES.invalidContextId,
  );
}
