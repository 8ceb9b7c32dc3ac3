import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import type { Driver, DriverEnvironment, LegacyDriver } from "./driver.js";
import { type DriverListing, driverName, findMethod, type ListedMethod, parseListing } from "./listing.js";
import { DECLARED, type DeclaredMethod, type MethodCall, MethodError, type MethodKind } from "./method.js";

export interface LoadedDriver {
  readonly listing: DriverListing;
  start(): Promise<void>;
  call(
    called: {
      readonly kind: MethodKind;
      readonly method: string;
      readonly args: JsonObject;
      readonly validateOnly: boolean;
    },
    call: MethodCall,
  ): Promise<unknown>;
}

type DriverClass = (new (
  environment: DriverEnvironment,
) => Driver & LegacyDriver) &
  Pick<typeof Driver, keyof typeof Driver>;

/** Creates a driver from a package's default export. Throws an error that names the missing part. */
export async function loadedDriver(
  exported: unknown,
  settings: JsonObject,
  environmentOf: (settings: unknown, driver: string) => Promise<DriverEnvironment>,
): Promise<LoadedDriver> {
  if (typeof exported !== "function")
    throw new TypeError("the driver's package does not export a class as its default");
  const Class = exported as DriverClass;
  const name = driverName(Class.driverName ?? "");
  const driver = new Class(await environmentOf(settingsOf(Class, settings), name));
  const methods = declaredBy(driver);
  const listing = parseListing({
    name,
    description: Class.description ?? "",
    nodeMethods: listed(methods, "node"),
    driverMethods: listed(methods, "driver"),
    catchAll: {
      node: typeof driver.vendorPassthru === "function",
      driver: typeof driver.driverVendorPassthru === "function",
    },
  });
  return {
    listing,
    start: async () => driver.start?.(),
    call: async ({ kind, method, args, validateOnly }, call) => {
      const listed = findMethod(listing, kind, method);
      if (listed === undefined) throw new MethodError("invalid", `No handler for method ${method}`);
      const declared = methods.find((each) => each.declared[DECLARED] === kind && each.name === method)?.declared;
      const parsed = declared === undefined ? args : declared.parse(method, args);
      if (validateOnly) return null;
      if (declared !== undefined) return resultOf(listed, await declared.run.call(driver, parsed as never, call));
      const catchAll = kind === "node" ? driver.vendorPassthru : driver.driverVendorPassthru;
      return resultOf(listed, await catchAll?.call(driver, method, args, call));
    },
  };
}

/** Returns a method's result, which is bytes for a method with `attach` or `contentType`. */
function resultOf({ name, async, attach, contentType }: ListedMethod, returned: unknown): unknown {
  if (async && returned instanceof Uint8Array)
    throw new MethodError("failed", `the asynchronous method ${name} answered bytes, which its task cannot keep`);
  if (!(attach || contentType !== "") || returned instanceof Uint8Array) return returned;
  const text = returned ?? "";
  if (typeof text === "string") return Buffer.from(text);
  throw new MethodError(
    "failed",
    `the method ${name}, which has attach or contentType, answered neither a text nor bytes`,
  );
}

function settingsOf({ settings: schema }: DriverClass, given: JsonObject): unknown {
  if (schema === undefined) {
    const [name] = Object.keys(given);
    if (name !== undefined) throw new TypeError(`the driver takes no settings, but its config has ${name}`);
    return {};
  }
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const texts = parsed.error.issues.map(
    ({ path, message }) => `${path.map(String).join(".") || "settings"}: ${message}`,
  );
  throw new TypeError(`the driver's settings are wrong: ${texts.join("; ")}`);
}

interface Named {
  readonly name: string;
  readonly declared: DeclaredMethod;
}

/** Returns the declared methods. Subclass fields have already replaced overridden fields. */
function declaredBy(driver: object): Named[] {
  return Object.entries(driver).flatMap(([field, value]) =>
    isJsonObject(value) && DECLARED in value
      ? [{ name: (value as unknown as DeclaredMethod).name ?? field, declared: value as unknown as DeclaredMethod }]
      : [],
  );
}

function listed(methods: readonly Named[], kind: MethodKind): ListedMethod[] {
  return methods
    .filter(({ declared }) => declared[DECLARED] === kind)
    .map(({ name, declared: { httpMethods, schema, parse: _parse, run: _run, ...declared } }) => ({
      ...declared,
      name,
      httpMethods: [...httpMethods] as ListedMethod["httpMethods"],
      schema: { ...schema },
    }));
}
