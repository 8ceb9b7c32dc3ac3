import { InvalidArgumentError, type JsonObject } from "@diskmesh/domain";

/** The scope that a caller of a method needs. */
export type VendorScope = "read" | "call" | "admin";

/** One method that a driver publishes, as it is called. */
export interface VendorMethod {
  readonly driver: string;
  readonly name: string;
  /** In capitals. */
  readonly httpMethods: readonly string[];
  readonly async: boolean;
  readonly description: string;
  readonly scope: VendorScope;
  /** True when it needs its node's lock. */
  readonly exclusiveLock: boolean;
  /** JSON schema of its arguments. */
  readonly schema: JsonObject;
}

/** The methods of a node, or of a driver. */
export interface VendorMethods {
  readonly methods: ReadonlyMap<string, VendorMethod>;
  /** Takes every name that is no method's. */
  readonly catchAll: Omit<VendorMethod, "name"> | undefined;
}

/**
 * Returns the methods of all drivers in the order given: the first method of a name has it, and the first catch-all the
 * rest.
 */
export function vendorMethods(
  methods: readonly VendorMethod[],
  [catchAll]: readonly Omit<VendorMethod, "name">[],
): VendorMethods {
  const byName = new Map<string, VendorMethod>();
  for (const method of methods) if (!byName.has(method.name)) byName.set(method.name, method);
  return { methods: byName, catchAll };
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/** Throws InvalidArgumentError where there is no such method, or not by that verb. */
export function chosenMethod(of: VendorMethods, name: string, httpMethod: string): VendorMethod {
  const caught = of.catchAll !== undefined && NAME.test(name) ? { ...of.catchAll, name } : undefined;
  const method = of.methods.get(name) ?? caught;
  if (method === undefined) throw new InvalidArgumentError(`No handler for method ${printable(name)}`);
  if (!method.httpMethods.includes(httpMethod))
    throw new InvalidArgumentError(`The method ${name} does not support HTTP ${printable(httpMethod)}`);
  return method;
}

/** Argument names that have another meaning in drivers. */
const RESERVED = ["http_method", "task"];

export function refuseReserved(args: JsonObject): void {
  const name = RESERVED.find((each) => Object.hasOwn(args, each));
  if (name !== undefined) throw new InvalidArgumentError(`The parameter '${name}' is reserved: no method can take it`);
}

/** Returns typed text in a form that fits in a line. */
function printable(text: string): string {
  return NAME.test(text) ? text : JSON.stringify(text.slice(0, 64));
}
