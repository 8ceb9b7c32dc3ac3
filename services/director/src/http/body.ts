import { isJsonObject, type JsonObject, parseJson } from "@diskmesh/domain";
import type { FastifyRequest } from "fastify";
import { CODES } from "../tasks/bosh-codes.js";
import { BadRequestError } from "./http-error.js";

const UTF8 = new TextDecoder("utf-8", { fatal: true });

type Done = (error: Error | null, body?: unknown) => void;

/** Decodes a body as UTF-8 regardless of its content type. */
export function textOfBody(_request: FastifyRequest, bytes: Buffer, done: Done): void {
  try {
    done(null, UTF8.decode(bytes));
  } catch {
    done(new BadRequestError("the body is no text in UTF-8"));
  }
}

/** Maximum size of a JSON body on a route that also accepts a stemcell. */
const MAX_STREAMED_TEXT_BYTES = 64 * 1024;

export async function textOfStream(bytes: AsyncIterable<unknown>): Promise<string> {
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  for await (const piece of bytes) {
    sizeBytes += pieces[pieces.push(piece as Buffer) - 1]?.length ?? 0;
    if (sizeBytes > MAX_STREAMED_TEXT_BYTES) throw new BadRequestError("the JSON body is too long");
  }
  try {
    return UTF8.decode(Buffer.concat(pieces));
  } catch {
    throw new BadRequestError("the body is no text in UTF-8");
  }
}

/** Passes the raw bytes to the route. */
export function bytesOfBody(_request: FastifyRequest, bytes: unknown, done: Done): void {
  done(null, bytes);
}

export function bodyText(request: FastifyRequest): string {
  return typeof request.body === "string" ? request.body : "";
}

/** Returns the body as a JSON object; an empty body counts as an empty object. */
export function bodyObject(request: FastifyRequest): Fields {
  return fieldsOf(bodyText(request));
}

/** Parses a text that must be a JSON object. */
export function fieldsOf(text: string): Fields {
  if (text.trim() === "") return new Fields({});
  let value: unknown;
  try {
    value = parseJson("the body", text);
  } catch (error) {
    throw new BadRequestError((error as Error).message, CODES.invalidJson);
  }
  if (isJsonObject(value)) return new Fields(value);
  throw new BadRequestError("the body is not a JSON object", CODES.invalidJson);
}

/** The properties of a client's JSON object. Errors use BOSH's messages and never quote a value. */
export class Fields {
  constructor(private readonly object: JsonObject) {}

  has(name: string): boolean {
    return Object.hasOwn(this.object, name);
  }

  /** Returns a text property. Numbers are converted to text, as in BOSH. */
  text(name: string): string {
    const value = this.#given(name);
    if (typeof value === "number") return String(value);
    if (typeof value !== "string") throw wrongType(name, value, "String");
    if (value === "")
      throw new BadRequestError(`'${name}' length (0) should be greater than 1`, CODES.belowMinimum, name);
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.#own(name);
    if (value === undefined || value === null || value === "") return undefined;
    return this.text(name);
  }

  flag(name: string): boolean {
    const value = this.#given(name);
    if (typeof value !== "boolean") throw wrongType(name, value, "Boolean");
    return value;
  }

  positive(name: string): number {
    const value = this.#given(name);
    if (typeof value !== "number" || !Number.isSafeInteger(value)) throw wrongType(name, value, "Integer");
    if (value < 1) throw new BadRequestError(`'${name}' value (${value}) should be greater than 1`, CODES.belowMinimum);
    return value;
  }

  optionalObject(name: string): { [key: string]: unknown } | undefined {
    if (!this.has(name)) return undefined;
    const value = this.#own(name);
    if (!isJsonObject(value)) throw wrongType(name, value, "Hash");
    return { ...value };
  }

  inner(name: string): Fields {
    const value = this.#given(name);
    if (!isJsonObject(value)) throw wrongType(name, value, "Hash");
    return new Fields(value);
  }

  optionalTexts(name: string): readonly string[] | undefined {
    const value = this.#own(name);
    if (value === undefined || value === null) return undefined;
    if (Array.isArray(value) && value.every((each): each is string => typeof each === "string")) return value;
    throw wrongType(name, value, "Array");
  }

  #own(name: string): unknown {
    return this.has(name) ? this.object[name] : undefined;
  }

  #given(name: string): unknown {
    if (this.has(name)) return this.object[name];
    throw new BadRequestError(`Required property '${name}' was not specified in object`, CODES.missingField);
  }
}

function wrongType(name: string, value: unknown, type: string): BadRequestError {
  const shown = value === null ? " (nil)" : typeof value === "number" ? ` (${value})` : "";
  return new BadRequestError(
    `Property '${name}' value${shown} did not match the required type '${type}'`,
    CODES.invalidType,
  );
}
