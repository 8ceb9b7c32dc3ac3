import type { JsonObject } from "@diskmesh/domain";
import * as z from "zod";

/** Scopes of callers: readers may look, callers may change what can be changed back, the rest is for administrators. */
export const METHOD_SCOPES = ["read", "call", "admin"] as const;
type MethodScope = (typeof METHOD_SCOPES)[number];

/** A method is of a node, run on that host by its agent, or of the driver itself, run by the director. */
export type MethodKind = "node" | "driver";

/** The inputs of a method besides its arguments. */
export interface MethodCall {
  /** The verb that it was called with, in capitals. */
  readonly httpMethod: string;
  /** The node that it was called on; empty for a method of the driver. */
  readonly nodeId: string;
  /** Aborts when nobody waits for the answer any more: end what is under way. A driver that does not is killed. */
  readonly signal: AbortSignal;
}

/** The declaration of a method, beside its code. */
export interface Declaration<Arguments extends z.ZodObject> {
  /** The verbs that it answers to: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS. */
  readonly httpMethods: readonly string[];
  /** True: the caller is told of a task at once, which ends with the method. False: the caller waits for the answer. */
  readonly async: boolean;
  /** One line for whoever looks for what there is. */
  readonly description: string;
  /** The name in paths; that of the field by default. */
  readonly name?: string;
  /** None by default. What is not declared is refused, unless it is a `z.looseObject`. */
  readonly args?: Arguments;
  /** "admin" by default. */
  readonly scope?: MethodScope;
}

export interface NodeDeclaration<Arguments extends z.ZodObject> extends Declaration<Arguments> {
  /** True when no other work that needs the node's lock may run there meanwhile; true by default. */
  readonly exclusiveLock?: boolean;
}

type Run<Arguments extends z.ZodObject> = (args: z.output<Arguments>, call: MethodCall) => unknown;

/** A field with one of these is a method of its driver; a subclass that has a field of that name overrides it. */
export interface DeclaredMethod {
  readonly [DECLARED]: MethodKind;
  readonly name: string | undefined;
  readonly httpMethods: readonly string[];
  readonly async: boolean;
  readonly description: string;
  readonly scope: MethodScope;
  readonly exclusiveLock: boolean;
  /** JSON schema of the arguments. */
  readonly schema: JsonObject;
  /** Throws MethodError for arguments that do not fit. */
  readonly parse: (method: string, args: JsonObject) => unknown;
  readonly run: (args: never, call: MethodCall) => unknown;
}

// Drivers and their host may each have a copy of this package.
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
  { name, httpMethods, async, description, args, scope = "admin" }: Declaration<Arguments>,
  exclusiveLock: boolean,
  run: Run<Arguments>,
): DeclaredMethod {
  const schema: z.ZodObject = args ?? z.strictObject({});
  // Undeclared arguments are refused rather than dropped.
  const strict = schema.def.catchall === undefined ? schema.strict() : schema;
  return {
    [DECLARED]: kind,
    name,
    httpMethods: httpMethods.map((verb) => verb.toUpperCase()),
    async,
    description,
    scope,
    exclusiveLock,
    schema: z.toJSONSchema(strict, { io: "input" }) as JsonObject,
    parse: (method, given) => parseArgs(strict, method, given),
    run,
  };
}

/** A value that nobody shall see in audits, logs or listings. */
export function secret<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ ...schema.meta(), writeOnly: true }) as Schema;
}

/** The kinds of failures that a method may throw; anything else is "failed". */
const FAILURE_KINDS = ["invalid", "not_found", "conflict", "unavailable", "failed"] as const;
export type FailureKind = (typeof FAILURE_KINDS)[number];

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

/** The kind of anything that was thrown, by whichever copy of this package. */
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

/** Names the argument and what is expected; never quotes its value, which may be secret. */
function issueText(method: string, given: JsonObject, issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join(".");
  const [first] = issue.path;
  if (issue.path.length === 1 && first !== undefined && !Object.hasOwn(given, first))
    return `Parameter '${path}' not passed to method '${method}'.`;
  if (issue.code === "unrecognized_keys") return `Method '${method}' takes no parameter '${issue.keys.join("', '")}'.`;
  return `Parameter '${path}' of method '${method}' is wrong: ${issue.message}`;
}
