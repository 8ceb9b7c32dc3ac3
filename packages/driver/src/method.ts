import type { JsonObject } from "@diskmesh/domain";
import * as z from "zod";

/** Scopes of callers: "read" for methods that only read, "call" for reversible changes, "admin" for all others. */
export const METHOD_SCOPES = ["read", "call", "admin"] as const;
type MethodScope = (typeof METHOD_SCOPES)[number];

/** A node method runs on a host in its agent; a driver method runs in the director. */
export type MethodKind = "node" | "driver";

/** Inputs of a method call besides the method's arguments. */
export interface MethodCall {
  /** The verb of the call in upper case. */
  readonly httpMethod: string;
  /** The node of the call; empty for a driver method. */
  readonly nodeId: string;
  /**
   * Aborted when nobody waits for the result any more. A driver that ignores the abort is killed. A method that throws
   * MethodError("cancelled", text) then tells what it left.
   */
  readonly signal: AbortSignal;
  /**
   * Tells how far an asynchronous method is: a percent from 0 to 100, and a line of up to 200 characters. Its task shows
   * the latest. Has no effect in a synchronous method. Throws RangeError for another percent.
   */
  progress(percent: number, text?: string): void;
}

/** Argument of `nodeMethod` and `driverMethod`. */
export interface Declaration<Arguments extends z.ZodObject> {
  /** The accepted verbs: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS. */
  readonly httpMethods: readonly string[];
  /** True: the caller gets a task at once, which ends with the method. False: the caller waits for the result. */
  readonly async: boolean;
  /** A single line for lists of methods. */
  readonly description: string;
  /** The name in paths; the field name by default. */
  readonly name?: string;
  /**
   * Schema of the arguments; by default none are accepted. Arguments that the schema lacks are refused unless it is a
   * `z.looseObject`.
   */
  readonly args?: Arguments;
  /** "admin" by default. */
  readonly scope?: MethodScope;
  /**
   * True: the result is bytes, for callers to save. A string becomes UTF-8, and no result becomes no bytes. False by
   * default. Only synchronous methods may have it.
   */
  readonly attach?: boolean;
  /**
   * Media type of the result over HTTPS, such as "text/plain". The result is then bytes, as with `attach`, and browsers
   * and other clients show it. Only synchronous methods may have it.
   */
  readonly contentType?: string;
  /**
   * Time limit of a call, in ms. By default 20,000 for a synchronous method, and 3,600,000 for an asynchronous one. A
   * driver with a method above `maxTimeoutMs` of its config does not load.
   */
  readonly timeoutMs?: number;
}

export interface NodeDeclaration<Arguments extends z.ZodObject> extends Declaration<Arguments> {
  /** True when the method excludes other work that needs the node's lock; true by default. */
  readonly exclusiveLock?: boolean;
}

/** Returns JSON or, in a synchronous method, a Uint8Array. */
type Run<Arguments extends z.ZodObject> = (args: z.output<Arguments>, call: MethodCall) => unknown;

/** The value of a field that declares a method. A subclass overrides the method by a field of the same name. */
export interface DeclaredMethod {
  readonly [DECLARED]: MethodKind;
  readonly name: string | undefined;
  readonly httpMethods: readonly string[];
  readonly async: boolean;
  readonly description: string;
  readonly scope: MethodScope;
  readonly exclusiveLock: boolean;
  readonly attach: boolean;
  /** Empty for none. */
  readonly contentType: string;
  /** 0 for the default. */
  readonly timeoutMs: number;
  /** JSON schema of the arguments. */
  readonly schema: JsonObject;
  /** Throws MethodError for invalid arguments. */
  readonly parse: (method: string, args: JsonObject) => unknown;
  readonly run: (args: never, call: MethodCall) => unknown;
}

// Global symbols, because drivers and their host may have different copies of this package.
export const DECLARED: unique symbol = Symbol.for("diskmesh.driver.method");
const METHOD_ERROR: unique symbol = Symbol.for("diskmesh.driver.error");

export function nodeMethod<Arguments extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  declaration: NodeDeclaration<Arguments>,
  run: Run<Arguments>,
): DeclaredMethod {
  return declare("node", declaration, declaration.exclusiveLock ?? true, run);
}

export function driverMethod<Arguments extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  declaration: Declaration<Arguments>,
  run: Run<Arguments>,
): DeclaredMethod {
  return declare("driver", declaration, false, run);
}

function declare<Arguments extends z.ZodObject>(
  kind: MethodKind,
  {
    name,
    httpMethods,
    async,
    description,
    args,
    scope = "admin",
    attach = false,
    contentType = "",
    timeoutMs = 0,
  }: Declaration<Arguments>,
  exclusiveLock: boolean,
  run: Run<Arguments>,
): DeclaredMethod {
  const schema: z.ZodObject = args ?? z.strictObject({});
  // Undeclared arguments are refused instead of dropped.
  const strict = schema.def.catchall === undefined ? schema.strict() : schema;
  return {
    [DECLARED]: kind,
    name,
    httpMethods: httpMethods.map((verb) => verb.toUpperCase()),
    async,
    description,
    scope,
    exclusiveLock,
    attach,
    contentType,
    timeoutMs,
    schema: z.toJSONSchema(strict, { io: "input" }) as JsonObject,
    parse: (method, given) => parseArgs(strict, method, given),
    run,
  };
}

/** Marks a value as secret in audits, logs and listings. */
export function secret<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ ...schema.meta(), writeOnly: true }) as Schema;
}

/** The failure kinds that a method may throw; any other error counts as "failed". */
const FAILURE_KINDS = ["invalid", "not_found", "conflict", "unavailable", "cancelled", "failed"] as const;
export type FailureKind = (typeof FAILURE_KINDS)[number];

/**
 * A failure that callers can tell apart by its kind. "cancelled" is for a method whose signal was aborted: its message
 * says what the method left.
 */
export class MethodError extends Error {
  override readonly name = "MethodError";
  readonly [METHOD_ERROR] = true;

  constructor(
    readonly kind: FailureKind,
    message: string,
  ) {
    super(message);
  }
}

/** Returns the failure kind of a thrown value, also of a MethodError from another copy of this package. */
export function failureKindOf(thrown: unknown): FailureKind {
  if (typeof thrown !== "object" || thrown === null || !(METHOD_ERROR in thrown)) return "failed";
  const { kind } = thrown as { readonly kind?: unknown };
  return FAILURE_KINDS.find((each) => each === kind) ?? "failed";
}

function parseArgs(schema: z.ZodObject, method: string, given: JsonObject): unknown {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new MethodError("invalid", issue === undefined ? "wrong arguments" : issueText(method, given, issue));
}

/**
 * Returns a message that names the argument and the expectation. The message never quotes the value, which may be
 * secret.
 */
function issueText(method: string, given: JsonObject, issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join(".");
  const [first] = issue.path;
  if (issue.path.length === 1 && first !== undefined && !Object.hasOwn(given, first))
    return `Parameter '${path}' not passed to method '${method}'.`;
  if (issue.code === "unrecognized_keys") return `Method '${method}' takes no parameter '${issue.keys.join("', '")}'.`;
  return `Parameter '${path}' of method '${method}' is wrong: ${issue.message}`;
}
