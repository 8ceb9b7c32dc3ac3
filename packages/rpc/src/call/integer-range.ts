import { BinaryReader } from "@bufbuild/protobuf/wire";
import { InvalidArgumentError } from "@diskmesh/domain";

interface Decoder {
  decode(bytes: Uint8Array | BinaryReader): unknown;
}

/**
 * Decodes a request. Throws InvalidArgumentError with the field's name for a 64-bit integer beyond 2^53 - 1. Generated
 * code would throw without the name.
 */
export function decodeRequest(type: Decoder, bytes: Uint8Array): unknown {
  try {
    return type.decode(bytes);
  } catch (error) {
    const reader = new MarkingReader(bytes);
    const field = reader.fieldOf(type);
    if (field === undefined) throw error;
    throw new InvalidArgumentError(`${field} is ${reader.refused}: it must be between -(2^53 - 1) and 2^53 - 1`, {
      about: { field },
    });
  }
}

/**
 * Value that a decoded message has in place of an out-of-range integer. A timestamp with this value as its seconds
 * decodes to an invalid Date.
 */
const REFUSED = Number.MIN_SAFE_INTEGER;

/** Reads integers beyond 2^53 - 1 as REFUSED, and finds their field. */
class MarkingReader extends BinaryReader {
  refused: string | undefined;

  override int64(): bigint | string {
    return this.#marked(super.int64());
  }

  override uint64(): bigint | string {
    return this.#marked(super.uint64());
  }

  /** Returns the proto path of the first field that holds REFUSED. */
  fieldOf(type: Decoder): string | undefined {
    try {
      const message = type.decode(this);
      return this.refused === undefined ? undefined : pathOfRefused(message);
    } catch {
      return undefined;
    }
  }

  #marked(value: bigint | string): bigint | string {
    if (Number.isSafeInteger(Number(value))) return value;
    this.refused ??= String(value);
    return String(REFUSED);
  }
}

function pathOfRefused(value: unknown, path = ""): string | undefined {
  if (value === REFUSED || (value instanceof Date && Number.isNaN(value.getTime()))) return path;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, each] of Object.entries(value)) {
    const found = pathOfRefused(each, childPath(value, path, key, each));
    if (found !== undefined) return found;
  }
  return undefined;
}

function childPath(parent: object, path: string, key: string, child: { readonly $case?: string } | null): string {
  if (Array.isArray(parent)) return `${path}[${key}]`;
  // A oneof adds no path element of its own: the name of its set field stands for it.
  if ("$case" in parent) return path;
  const name = (child?.$case ?? key).replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return path === "" ? name : `${path}.${name}`;
}
