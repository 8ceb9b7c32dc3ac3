import { isJsonObject, type JsonObject, REDACTED } from "@diskmesh/domain";
import * as z from "zod";
import type { DriverLimits } from "./limits.js";
import { METHOD_SCOPES, type MethodKind } from "./method.js";

const VERBS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] as const;
/** Valid in a path, a log line and a table key. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
// A single line, because the text is displayed verbatim.
const LINE = /^[^\p{Cc}\p{Zl}\p{Zp}]{0,1000}$/u;
const MEDIA_TYPE = /^([a-z]+\/[a-z0-9][a-z0-9.+-]*(; charset=utf-8)?)?$/;
const MAX_SCHEMA_LENGTH = 32_768;

const declaration = z.strictObject({
  name: z.string().regex(NAME, "a method's name has up to 64 letters, digits, '-' and '_'"),
  httpMethods: z.array(z.enum(VERBS)).min(1).max(VERBS.length),
  async: z.boolean(),
  description: z.string().regex(LINE, "a description is one line of up to 1000 characters"),
  scope: z.enum(METHOD_SCOPES),
  exclusiveLock: z.boolean(),
  attach: z.boolean(),
  /** Empty for JSON, or bytes of any type. */
  contentType: z.string().regex(MEDIA_TYPE, 'contentType is a media type such as "text/plain"'),
  /** 0 for the default of the method's kind. */
  timeoutMs: z.int("timeoutMs is a number of milliseconds").min(0),
  schema: z
    .record(z.string(), z.unknown())
    .refine((schema) => JSON.stringify(schema).length <= MAX_SCHEMA_LENGTH, "the schema of the arguments is too long"),
});

const method = declaration.refine(
  ({ async, attach, contentType }) => !(async && (attach || contentType !== "")),
  "a method with attach or contentType must be synchronous, because a task keeps no bytes",
);

const methods = z
  .array(method)
  .max(100)
  .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, "two methods have the same name");

const listing = z.strictObject({
  name: z.string().regex(NAME, "a driver's name has up to 64 letters, digits, '-' and '_'"),
  description: z.string().regex(LINE, "a description is one line of up to 1000 characters"),
  nodeMethods: methods,
  driverMethods: methods,
  /** True when a LegacyDriver function handles every other method of the kind. */
  catchAll: z.strictObject({ node: z.boolean(), driver: z.boolean() }),
});

/** A method in a listing, as the process of the driver reports it. */
export type ListedMethod = z.output<typeof method>;
/** Name, description and methods of a driver, as its process reports them. */
export type DriverListing = z.output<typeof listing>;

/** Returns the name unchanged. Throws TypeError unless it is a driver's name, which is a file name, too. */
export function driverName(name: string): string {
  if (NAME.test(name)) return name;
  throw new TypeError("a driver's name has up to 64 letters, digits, '-' and '_'");
}

/** Parses a listing received from a driver's process. Throws an error that names the fault. */
export function parseListing(value: unknown): DriverListing {
  const parsed = listing.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new TypeError(`${issue?.path.map(String).join(".") ?? ""}: ${issue?.message ?? "no listing"}`.slice(0, 500));
}

/** Returns the declaration that a catch-all has for any method name. */
export function catchAllMethod(kind: MethodKind): Omit<ListedMethod, "name"> {
  // In LegacyDriver, node methods were asynchronous, driver methods synchronous, and all used POST.
  const isNode = kind === "node";
  const locks = { async: isNode, exclusiveLock: isNode };
  return {
    httpMethods: ["POST"],
    description: "",
    scope: "admin",
    attach: false,
    contentType: "",
    timeoutMs: 0,
    schema: {},
    ...locks,
  };
}

/** Returns the time limit of a call of the method, in ms. */
export function timeoutOf(
  { async, timeoutMs }: Pick<ListedMethod, "async" | "timeoutMs">,
  { syncTimeoutMs, asyncTimeoutMs }: Pick<DriverLimits, "syncTimeoutMs" | "asyncTimeoutMs">,
): number {
  return timeoutMs || (async ? asyncTimeoutMs : syncTimeoutMs);
}

/** Throws an error that names the first method whose time limit is above the operator's. */
export function refuseLongMethods({ nodeMethods, driverMethods }: Methods, maxTimeoutMs: number): void {
  for (const { name, timeoutMs } of [...nodeMethods, ...driverMethods])
    if (timeoutMs > maxTimeoutMs)
      throw new TypeError(
        `its method ${name} may take ${timeoutMs} ms, and \`maxTimeoutMs\` of its config is ${maxTimeoutMs}: raise that if the method may`,
      );
}

type Methods = Pick<DriverListing, "nodeMethods" | "driverMethods">;

/** Returns the declared method with the name; undefined for none. */
export function declaredMethod(
  { nodeMethods, driverMethods }: Methods,
  kind: MethodKind,
  name: string,
): ListedMethod | undefined {
  return (kind === "node" ? nodeMethods : driverMethods).find((each) => each.name === name);
}

/** Returns the method with the name, which a catch-all may handle; undefined for none. */
export function findMethod(
  listing: Methods & Pick<DriverListing, "catchAll">,
  kind: MethodKind,
  name: string,
): ListedMethod | undefined {
  const found = declaredMethod(listing, kind, name);
  if (found !== undefined || !listing.catchAll[kind] || !NAME.test(name)) return found;
  return { name, ...catchAllMethod(kind) };
}

const MAX_SHOWN_LENGTH = 100;

/** Returns the arguments for the audit. Arguments that are secret or not declared in the schema are redacted. */
export function shownArguments(schema: JsonObject, args: JsonObject): JsonObject {
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => {
      const declared = Object.hasOwn(properties, name) ? properties[name] : undefined;
      return [name.slice(0, MAX_SHOWN_LENGTH), shown(declared, value)];
    }),
  );
}

/** Returns the names of the arguments that are secret, or contain secrets, and so are redacted in the audit. */
export function secretArguments(schema: JsonObject, args: JsonObject): string[] {
  const shown = shownArguments(schema, args);
  return Object.keys(args).filter((name) => shown[name] !== args[name]);
}

/** Name, kind and arguments of a called method. */
export interface CalledMethod {
  readonly kind: MethodKind;
  readonly method: string;
  readonly args: JsonObject;
}

/**
 * Returns the values of a call's secret arguments. Every argument is secret without a listing or for an unlisted
 * method.
 */
export function secretsOf(listing: DriverListing | undefined, { kind, method, args }: CalledMethod): unknown[] {
  const schema = listing && findMethod(listing, kind, method)?.schema;
  return secretArguments(schema ?? {}, args).map((name) => args[name]);
}

// A value that contains a secret is redacted as a whole, because its other parts may reveal the secret.
function shown(schema: unknown, value: unknown): unknown {
  if (!isJsonObject(schema) || !isPlain(schema)) return REDACTED;
  if (typeof value === "string")
    return value.length > MAX_SHOWN_LENGTH ? `${value.slice(0, MAX_SHOWN_LENGTH)}...` : value;
  if (typeof value !== "object" || value === null) return value;
  const text = JSON.stringify(value);
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}...` : value;
}

function isPlain(schema: JsonObject): boolean {
  if (schema.writeOnly === true || "$ref" in schema) return false;
  return Object.values(schema).every((inner) => {
    if (Array.isArray(inner)) return inner.every((each) => !isJsonObject(each) || isPlain(each));
    return !isJsonObject(inner) || isPlain(inner);
  });
}
