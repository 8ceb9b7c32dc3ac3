import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import type { CpiMethod } from "./methods.js";

const REDACTED = "<redacted>";

// Shorter texts are no secrets worth the name, and are part of too many words.
const MIN_SECRET_LENGTH = 4;

const SHOWN_BOSH_ENV = new Set(["group", "groups", "tags"]);

/** Hides texts that must not be seen: in log lines and error messages that a CPI wrote. */
export class Redactor {
  readonly #pattern: RegExp | undefined;

  /** Every text and number inside the values given is a secret, in each form in which a program may print it. */
  constructor(values: readonly unknown[]) {
    const secrets = new Set(values.flatMap(textsIn).flatMap(formsOf));
    const longestFirst = [...secrets].filter(isSecret).sort((a, b) => b.length - a.length);
    if (longestFirst.length > 0) this.#pattern = new RegExp(longestFirst.map(escaped).join("|"), "g");
  }

  text(text: string): string {
    return this.#pattern ? text.replace(this.#pattern, REDACTED) : text;
  }
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value === "number") return [String(value)];
  if (typeof value === "object" && value !== null) return Object.values(value).flatMap(textsIn);
  return [];
}

/** As it is, as in JSON, as in a URL, in Base64, and by line, since logs come by line. */
function formsOf(text: string): string[] {
  const encoded = Buffer.from(text, "utf8").toString("base64");
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return [text, JSON.stringify(text).slice(1, -1), encodedForUrl(text), encoded, ...lines];
}

function encodedForUrl(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    // Half a surrogate pair has no form in a URL.
    return text;
  }
}

function isSecret(text: string): boolean {
  return text.length >= MIN_SECRET_LENGTH && !["true", "false", "null"].includes(text);
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The parts of create_vm's `env` that are for the agent alone. */
export function secretEnv(env: JsonObject): JsonObject {
  const { bosh, ...others } = env;
  if (!isJsonObject(bosh)) return env;
  return { ...others, bosh: Object.fromEntries(Object.entries(bosh).filter(([key]) => !SHOWN_BOSH_ENV.has(key))) };
}

/** A request as a log may show it: keys stay, values that may be secret go. */
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
