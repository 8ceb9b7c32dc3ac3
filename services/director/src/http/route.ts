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
  /** Returns this director's report of itself. */
  readonly report: () => ProcessReport;
  /** The call, in the form that gRPC handlers take. */
  readonly call: CallContext;
  readonly login: Login;
  readonly query: URLSearchParams;
  /** Bytes of a stemcell, for a route that streams; else the body's text, empty for none. */
  readonly request: FastifyRequest;
  /** A part of the path, decoded. */
  param(name: string): string;
  /** Throws unless the login may do that, with something of these teams: those of the deployment in the path, unless told. */
  require(operation: Operation, teams?: readonly string[]): void;
  may(operation: Operation, teams?: readonly string[]): boolean;
  /** Returns the Set-Cookie header of a session at the page. Throws UnauthenticatedError for a wrong password. */
  logIn(name: string, password: string): Promise<string>;
}

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS" | "TRACE";
  readonly path: string;
  /**
   * The operation that the login must be allowed; undefined where the route itself checks, once it knows its subject.
   */
  readonly operation: Operation | undefined;
  /** It is not about one deployment that is there: who is of any team may ask, and is answered what is for that team. */
  readonly teams?: "own";
  /** It may change something, though its verb is that of a read. */
  readonly changes?: true;
  /** It is about this director, or the same of each: served whoever leads, to every login while this one does not. */
  readonly isOwn?: true;
  /** The body is not read before the route asks for it. */
  readonly streams?: true;
  /** Media types of its body; JSON by default. */
  readonly accepts?: readonly string[];
  /** Pages of other sites may link to it; all other routes refuse what a browser sends for them. */
  readonly isLinkable?: true;
  /** It needs no login. */
  readonly isOpen?: true;
  readonly serve: (http: HttpCall) => Promise<Answer>;
}

export function mayChange({ method, changes }: Route): boolean {
  return changes === true || (method !== "GET" && method !== "HEAD" && method !== "OPTIONS");
}
