import { readdirSync } from "node:fs";
import { join } from "node:path";
import { loadSync, type PackageDefinition } from "@grpc/proto-loader";
import type { Random } from "../random.js";
import { repositoryFolder } from "../repository-folder.js";
import { randomBytes, spoilBytes, strangeJson, strangeNumber, strangeText } from "./strange.js";
import { wordFor } from "./vocabulary.js";

/** A method of a service. */
export interface Method {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  /** Full name of the request message. */
  readonly request: string;
}

interface Field {
  readonly name: string;
  readonly number: number;
  readonly label: string;
  readonly type: string;
  readonly typeName: string;
}

const DEPTH_MAX = 5;
/** Maximum depth of recursive encoding; deeper messages are encoded by a loop. */
const WRITTEN_DEPTH_MAX = 300;
const DEEP = [20, 99, 101, 1_000, 10_000] as const;

/** Messages of the repository's .proto files. Generates requests that are valid except for some values. */
export class ProtoMessages {
  readonly methods: readonly Method[];
  readonly #definitions: PackageDefinition;

  constructor(folder = join(repositoryFolder, "proto")) {
    const files = readdirSync(folder, { recursive: true }).map((file) => join(folder, String(file)));
    this.#definitions = loadSync(
      files.filter((file) => file.endsWith(".proto")),
      { includeDirs: [folder, join(folder, "vendor")], keepCase: true },
    );
    this.methods = Object.entries(this.#definitions).flatMap(([name, definition]) =>
      "format" in definition
        ? []
        : Object.values(definition).map(({ path, requestStream, responseStream, requestType }) => {
            const { name: message } = requestType.type as { name: string };
            return {
              path,
              requestStream,
              responseStream,
              request: `${name.slice(0, name.lastIndexOf("."))}.${message}`,
            };
          }),
    );
  }

  /** Encodes a random message of that type. */
  encode(random: Random, message: string): Buffer {
    const bytes = this.#message(random, message, 0);
    return random.chance(0.15) ? spoilBytes(random, bytes) : bytes;
  }

  #message(random: Random, name: string, depth: number): Buffer {
    if (name === "google.protobuf.Struct")
      return random.chance(0.05)
        ? deepStruct(random.pick(DEEP))
        : wireStruct({ [strangeText(random)]: strangeJson(random, 3, WRITTEN_DEPTH_MAX) });
    if (name === "google.protobuf.Value") return wireValue(strangeJson(random, 3, WRITTEN_DEPTH_MAX));
    const definition = this.#definitions[name];
    if (definition === undefined || !("format" in definition)) throw new Error(`${name} is no message`);
    const { field: fields } = definition.type as { field: Field[] };
    const parts: Buffer[] = [];
    const often = random.pick([0.3, 0.8, 1]);
    for (const field of fields) {
      if (!random.chance(often)) continue;
      const times = field.label === "LABEL_REPEATED" ? random.pick([1, 1, 2, 3, 40]) : random.chance(0.03) ? 2 : 1;
      for (let time = 0; time < times; time++) parts.push(this.#field(random, name, field, depth));
    }
    if (random.chance(0.05)) parts.push(varint((BigInt(random.below(2 ** 29)) << 3n) | BigInt(random.below(8))));
    return Buffer.concat(parts);
  }

  #field(random: Random, scope: string, field: Field, depth: number): Buffer {
    if (random.chance(0.02)) return Buffer.concat([tag(field, random.below(8)), randomBytes(random, random.below(12))]);
    switch (field.type) {
      case "TYPE_STRING":
        return text(field, stringFor(random, field.name));
      case "TYPE_BYTES":
        return text(field, randomBytes(random, random.pick([0, 1, 16, 4_096])));
      case "TYPE_MESSAGE": {
        if (depth >= DEPTH_MAX) return text(field, Buffer.alloc(0));
        return text(field, this.#message(random, this.#resolve(scope, field.typeName), depth + 1));
      }
      case "TYPE_DOUBLE": {
        const number = Buffer.alloc(8);
        number.writeDoubleLE(strangeNumber(random));
        return Buffer.concat([tag(field, 1), number]);
      }
      case "TYPE_BOOL":
      case "TYPE_ENUM":
        return Buffer.concat([tag(field, 0), varint(BigInt(random.pick([0, 1, 1, 2, 3, 4, 1_000])))]);
      default:
        return Buffer.concat([tag(field, 0), varint(wholeFor(random, field.name))]);
    }
  }

  /** Resolves a type name as protobuf does: in the innermost scope that has the name. */
  #resolve(scope: string, name: string): string {
    if (name.startsWith(".")) return name.slice(1);
    for (let at = scope; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("."))))
      if (`${at}.${name}` in this.#definitions) return `${at}.${name}`;
    return name;
  }
}

function stringFor(random: Random, fieldName: string): Buffer {
  if (random.chance(0.02)) return Buffer.from([0xff, 0xfe, 0xc0, 0x80]);
  const word = random.chance(0.7) ? wordFor(random, fieldName) : undefined;
  return Buffer.from(word ?? strangeText(random));
}

function wholeFor(random: Random, fieldName: string): bigint {
  if (fieldName.endsWith("size_bytes") && random.chance(0.6)) return BigInt(random.pick([4_096, 2 ** 20, 2 ** 24]));
  if (random.chance(0.5)) return BigInt(random.below(4));
  const number = strangeNumber(random);
  return Number.isFinite(number) ? BigInt(Math.trunc(number)) : 0xffffffffffffffffn;
}

function tag({ number }: Field, wireType: number): Buffer {
  return varint((BigInt(number) << 3n) | BigInt(wireType));
}

function text(field: Field, bytes: Buffer): Buffer {
  return Buffer.concat([tag(field, 2), varint(BigInt(bytes.length)), bytes]);
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, value);
  do {
    bytes.push(Number(left & 0x7fn) | (left > 0x7fn ? 0x80 : 0));
    left >>= 7n;
  } while (left > 0n);
  return Buffer.from(bytes);
}

/** Encodes a google.protobuf.Struct. */
function wireStruct(value: object): Buffer {
  const entries = Object.entries(value).map(([key, item]) =>
    part(1, Buffer.concat([part(1, Buffer.from(key)), part(2, wireValue(item))])),
  );
  return Buffer.concat(entries);
}

/** Encodes a google.protobuf.Value. */
function wireValue(value: unknown): Buffer {
  if (typeof value === "string") return part(3, Buffer.from(value));
  if (typeof value === "boolean") return Buffer.from([0x20, value ? 1 : 0]);
  if (Array.isArray(value)) return part(6, Buffer.concat(value.map((item) => part(1, wireValue(item)))));
  if (typeof value === "object" && value !== null) return part(5, wireStruct(value));
  if (typeof value !== "number") return Buffer.from([0x08, 0]);
  const number = Buffer.alloc(9, 0x11);
  number.writeDoubleLE(value, 1);
  return number;
}

/** Encodes a length-delimited field. */
function part(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2]), varint(BigInt(bytes.length)), bytes]);
}

/** Encodes Structs nested to this depth. */
function deepStruct(depth: number): Buffer {
  // Builds from the innermost part: a field of a Struct whose value is a Struct.
  const pieces: Buffer[] = [];
  let lengthBytes = 0;
  const prepend = (number: number): void => {
    const head = Buffer.concat([Buffer.from([(number << 3) | 2]), varint(BigInt(lengthBytes))]);
    pieces.push(head);
    lengthBytes += head.length;
  };
  const key = part(1, Buffer.from("a"));
  for (let level = 0; level < depth; level++) {
    if (level > 0) prepend(5);
    if (level > 0) prepend(2);
    pieces.push(key);
    lengthBytes += key.length;
    prepend(1);
  }
  return Buffer.concat(pieces.reverse());
}
