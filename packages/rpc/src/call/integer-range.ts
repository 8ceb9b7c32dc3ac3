import { BinaryReader } from "@bufbuild/protobuf/wire";
import { InvalidArgumentError } from "@diskmesh/domain";

interface Decoder {
  decode(bytes: Uint8Array | BinaryReader): unknown;
}

/**
 * Decodes a request. Throws InvalidArgumentError that names the field where an integer of 64 bits is beyond 2^53 - 1,
 * because generated code refuses such an integer without a name.
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

/** Stands for a refused integer. As the seconds of a time it makes an invalid date. */
const REFUSED = Number.MIN_SAFE_INTEGER;

/** Reads integers beyond 2^53 - 1 as REFUSED. */
class MarkingReader extends BinaryReader {
  refused: string | undefined;

  override int64(): bigint | string {
    return this.#marked(super.int64());
  }

  override uint64(): bigint | string {
    return this.#marked(super.uint64());
  }

  /** Returns the path of the first field that holds such an integer, as the proto names it. */
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
  // A oneof is the field that its case names.
  if ("$case" in parent) return path;
  const name = (child?.$case ?? key).replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return path === "" ? name : `${path}.${name}`;
}
