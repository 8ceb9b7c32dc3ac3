import { InvalidArgumentError, type JsonObject, jsonDepthOf, problemAsJson, UnavailableError } from "@diskmesh/domain";

/** The permission scope that a method requires. */
export type VendorScope = "read" | "call" | "admin";

export interface VendorMethod {
  readonly driver: string;
  readonly name: string;
  /** In upper case. */
  readonly httpMethods: readonly string[];
  readonly async: boolean;
  readonly description: string;
  readonly scope: VendorScope;
  /** True when the method needs its node's lock. */
  readonly exclusiveLock: boolean;
  /** True when the result is bytes, for callers to save. */
  readonly attach: boolean;
  /** Media type of the result; empty for JSON, or bytes of any type. */
  readonly contentType: string;
  /** Time limit of a call; 0 when unknown. */
  readonly timeoutMs: number;
  /** JSON schema of the arguments. */
  readonly schema: JsonObject;
}

export interface VendorMethods {
  /** In the configured order of the drivers. */
  readonly methods: readonly VendorMethod[];
  /** Drivers that accept every undeclared method name. */
  readonly catchAlls: readonly Omit<VendorMethod, "name">[];
  /** Number of configured drivers, including drivers that do not run. */
  readonly driverCount: number;
  /** Packages of drivers that have not reported their methods yet. */
  readonly starting: readonly string[];
}

/** Returns all methods by their callable names: the method name, or `driver.method` when drivers share the name. */
export function listedMethods({ methods }: VendorMethods): VendorMethod[] {
  const counts = new Map<string, number>();
  for (const { name } of methods) counts.set(name, (counts.get(name) ?? 0) + 1);
  const listed = methods.map((method) =>
    counts.get(method.name) === 1 ? method : { ...method, name: qualified(method.driver, method.name) },
  );
  return listed.sort((a, b) => (a.name < b.name ? -1 : 1));
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/**
 * Returns the method for a name or `driver.method`. Beside other drivers, a catch-all handles only `driver.method`, so
 * that a mistyped name of another driver's method does not reach it. Throws InvalidArgumentError when no driver or several drivers have
 * the method, or when it does not accept the verb. Throws UnavailableError when a starting driver may have it.
 */
export function chosenMethod(of: VendorMethods, called: string, httpMethod: string): VendorMethod {
  const [, driver, name = ""] = /^(?:([^.]*)\.)?(.*)$/.exec(called) ?? [];
  const isMeant = (each: { readonly driver: string }): boolean => driver === undefined || each.driver === driver;
  const declared = of.methods.filter((each) => each.name === name && isMeant(each));
  const hasCatchAll = NAME.test(name) && (driver !== undefined || of.driverCount === 1);
  const caught = hasCatchAll ? of.catchAlls.filter(isMeant).map((each) => ({ ...each, name })) : [];
  const [method, ...others] = declared.length > 0 ? declared : caught;
  const names = NAME.test(called) ? of.catchAlls.map((each) => qualified(each.driver, called)) : [];
  const hint = names.length === 0 ? "" : `: a catch-all is called as ${names.join(" or ")}`;
  if (method === undefined && of.starting.length > 0)
    throw stillStarting(`No handler for method ${printable(called)} yet`, of.starting);
  if (method === undefined) throw new InvalidArgumentError(`No handler for method ${printable(called)}${hint}`);
  if (others.length > 0) {
    const names = [method, ...others].map((each) => qualified(each.driver, name));
    throw new InvalidArgumentError(`Several drivers have a method ${name}: call ${names.join(" or ")}`);
  }
  if (verbOf(method, httpMethod) === undefined)
    throw new InvalidArgumentError(`The method ${called} does not support HTTP ${printable(httpMethod)}`);
  return method;
}

/**
 * Returns the verb that the driver gets; undefined for a verb that the method does not accept. HEAD is a GET whose
 * answer has no body, unless the method declares HEAD, and starts no task.
 */
export function verbOf(method: VendorMethod, httpMethod: string): string | undefined {
  const { httpMethods, async: isTask } = method;
  if (httpMethods.includes(httpMethod)) return httpMethod;
  return httpMethod === "HEAD" && !isTask && httpMethods.includes("GET") ? "GET" : undefined;
}

/** Returns the packages of drivers that have not reported their methods yet. */
export function startingOf(drivers: readonly { readonly package: string; readonly state: string }[]): string[] {
  return drivers.filter(({ state }) => state === "starting").map((driver) => driver.package);
}

/** Returns a retryable error for an object that may appear once the drivers have started. */
export function stillStarting(missing: string, packages: readonly string[]): UnavailableError {
  return new UnavailableError(`${missing}: driver ${packages.join(", ")} is still starting; try again later`, {
    about: { driver: packages.join(", ") },
    retryAfterMs: RETRY_STARTING_MS,
  });
}

const RETRY_STARTING_MS = 1_000;

function qualified(driver: string, method: string): string {
  return `${driver}.${method}`;
}

/** Limits of a call's arguments in every API. */
export const MAX_ARGUMENTS_DEPTH = 25;
export const MAX_ARGUMENTS_BYTES = 1024 * 1024;

/** Argument names with a special meaning in drivers. */
const RESERVED = ["http_method", "task"];

/** Throws InvalidArgumentError for arguments that no method can accept. */
export function refuseUnfit(args: JsonObject): void {
  const name = RESERVED.find((each) => Object.hasOwn(args, each));
  if (name !== undefined) throw new InvalidArgumentError(`The parameter '${name}' is reserved: no method can take it`);
  const problem = problemAsJson(args);
  if (problem !== undefined) throw new InvalidArgumentError(`The arguments cannot be passed on: ${problem}`);
}

/** Throws InvalidArgumentError for arguments beyond the limits of an HTTP body. */
export function refuseTooLarge(args: JsonObject): void {
  const text = JSON.stringify(args);
  if (Buffer.byteLength(text) > MAX_ARGUMENTS_BYTES)
    throw new InvalidArgumentError(`args exceed the limit of ${MAX_ARGUMENTS_BYTES} bytes`, ABOUT_ARGS);
  if (jsonDepthOf(text) > MAX_ARGUMENTS_DEPTH)
    throw new InvalidArgumentError(`args are nested too deeply: the limit is ${MAX_ARGUMENTS_DEPTH}`, ABOUT_ARGS);
}

const ABOUT_ARGS = { about: { field: "args" } };

/** Returns user input in a form that fits in a line. */
function printable(text: string): string {
  return NAME.test(text) ? text : JSON.stringify(text.slice(0, 64));
}
