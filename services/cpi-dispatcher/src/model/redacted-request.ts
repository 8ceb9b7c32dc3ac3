import { isJsonObject, type JsonObject, REDACTED } from "@diskmesh/domain";
import type { CpiMethod } from "./methods.js";

const SHOWN_BOSH_ENV = new Set(["group", "groups", "tags"]);

/** Returns the parts of create_vm's `env` that only the agent may see. */
export function secretEnv(env: JsonObject): JsonObject {
  const { bosh, ...others } = env;
  if (!isJsonObject(bosh)) return env;
  return { ...others, bosh: Object.fromEntries(Object.entries(bosh).filter(([key]) => !SHOWN_BOSH_ENV.has(key))) };
}

/** Returns a request for the log: keys are kept, values that may be secret are redacted. */
export function redactedRequest(
  method: CpiMethod,
  args: readonly unknown[],
  context: JsonObject,
  propertyKeys: readonly string[],
): JsonObject {
  const shownContext = mapValues(context, (value, key) => (propertyKeys.includes(key) ? REDACTED : value));
  return { method, arguments: redactedArguments(method, args), context: shownContext };
}

function redactedArguments(method: CpiMethod, args: readonly unknown[]): readonly unknown[] {
  switch (method) {
    case "create_vm":
      return replaced(args, { 2: hideAll, 3: hideNetworks, 5: hideEnv });
    case "create_disk":
    case "create_stemcell":
      return replaced(args, { 1: hideAll });
    case "update_disk":
      return replaced(args, { 2: hideAll });
    default:
      return args;
  }
}

function replaced(args: readonly unknown[], hiders: Readonly<Record<number, (value: unknown) => unknown>>): unknown[] {
  return args.map((value, index) => hiders[index]?.(value) ?? value);
}

const hideAll = (value: unknown): unknown => (isJsonObject(value) ? mapValues(value, () => REDACTED) : REDACTED);

function hideNetworks(networks: unknown): unknown {
  if (!isJsonObject(networks)) return REDACTED;
  return mapValues(networks, (network) => {
    if (!isJsonObject(network)) return REDACTED;
    return Object.hasOwn(network, "cloud_properties")
      ? { ...network, cloud_properties: hideAll(network.cloud_properties) }
      : network;
  });
}

function hideEnv(env: unknown): unknown {
  if (!isJsonObject(env)) return REDACTED;
  return mapValues(env, (value, key) => (key === "bosh" && isJsonObject(value) ? hideBoshEnv(value) : REDACTED));
}

const hideBoshEnv = (bosh: JsonObject): JsonObject =>
  mapValues(bosh, (value, key) => (SHOWN_BOSH_ENV.has(key) ? value : REDACTED));

function mapValues(object: JsonObject, map: (value: unknown, key: string) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));
}
