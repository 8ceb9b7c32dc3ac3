import type { CallContext } from "@diskmesh/rpc";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { FastifyRequest } from "fastify";
import type { Operation } from "../config/policy.js";
import type { Login } from "../logins/login.js";
import type { Answer } from "./answer.js";
import type { Context } from "./context.js";

/** The inputs of a route. */
export interface HttpCall {
  /** Throws UnavailableError while this director does not lead. */
  readonly context: Context;
  /** Returns this director's process report. */
  readonly report: () => ProcessReport;
  /** The call in the form of gRPC handlers. */
  readonly call: CallContext;
  readonly login: Login;
  readonly query: URLSearchParams;
  /** The body is a stream for a route that streams, otherwise text; empty for no body. */
  readonly request: FastifyRequest;
  /** Returns a decoded path parameter. */
  param(name: string): string;
  /**
   * Throws unless the login may perform the operation on an object of these teams; the default is the teams of the
   * deployment in the path.
   */
  require(operation: Operation, teams?: readonly string[]): void;
  may(operation: Operation, teams?: readonly string[]): boolean;
  /** Returns the call of a route without a login, for the holder of a link. */
  callAs(login: Login): CallContext;
  /** Gives the request more time, in addition to the time of all requests. */
  extend(ms: number): void;
  /** Returns the Set-Cookie header of a new page session. Throws UnauthenticatedError for a wrong password. */
  logIn(name: string, password: string): Promise<string>;
}

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS" | "TRACE";
  readonly path: string;
  /**
   * The operation that the login needs; undefined when the route checks the permission itself, once the object is
   * known.
   */
  readonly operation: Operation | undefined;
  /**
   * Set for routes that are not about an existing deployment. Members of any team may call the route and get their
   * team's part.
   */
  readonly teams?: "own";
  /** Set when the route may change something although its verb is a read. */
  readonly changes?: true;
  /**
   * Set for routes about this director, and for routes that are the same on every director. While this director does not
   * lead, it serves them to every login, because it cannot check permissions. `true`: the route is never forwarded to the
   * leader. "without a leader": the leader serves the route, because only the leader knows which sessions have ended;
   * this director serves it when the leader does not answer.
   */
  readonly isOwn?: true | "without a leader";
  /** The route reads the body itself, as a stream. */
  readonly streams?: true;
  /**
   * Longest time of an answer that the leader begins later than other answers (see `extend`), for the director that
   * forwards the request. Undefined: the time of all requests.
   */
  readonly maxAnswerMs?: number;
  /** Media types of the body; JSON by default. */
  readonly accepts?: readonly string[];
  /** Allows cross-site links to the route. All other routes refuse cross-site requests of browsers. */
  readonly isLinkable?: true;
  /** Set for routes without a login. */
  readonly isOpen?: true;
  readonly serve: (http: HttpCall) => Promise<Answer>;
}

export function mayChange({ method, changes }: Route): boolean {
  return changes === true || (method !== "GET" && method !== "HEAD" && method !== "OPTIONS");
}
