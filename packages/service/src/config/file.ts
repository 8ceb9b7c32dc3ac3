import { closeSync, openSync, readSync } from "node:fs";
import { messageOf } from "@diskmesh/domain";
import { type Document, isMap, isScalar, parseDocument, visit } from "yaml";
import { ConfigError } from "./config-error.js";

/**
 * Maximum size of a config file. Fits an agent's 4,096 devices, and bounds the startup delay when a wrong file is
 * given.
 */
const MAX_CONFIG_BYTES = 2 * 1024 * 1024;

/** Parses a config file. Throws ConfigError, which never quotes the file. */
export function readConfigFile(file: string): unknown {
  let bytes: Buffer;
  try {
    bytes = readBeginning(file);
  } catch (error) {
    throw new ConfigError(`cannot read the config file ${file}: ${messageOf(error)}`, { cause: error });
  }
  if (bytes.length > MAX_CONFIG_BYTES)
    throw new ConfigError(`config ${file} has more than ${MAX_CONFIG_BYTES} bytes, the limit`);
  return parseYaml(textOf(bytes, file), `config ${file}`) ?? {};
}

/**
 * Reads at most one byte more than the maximum size, which proves that the file is too large. A device file, which has
 * no end, is thus refused as well.
 */
function readBeginning(file: string): Buffer {
  const bytes = Buffer.alloc(MAX_CONFIG_BYTES + 1);
  const descriptor = openSync(file, "r");
  try {
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, null);
    return bytes.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}

function textOf(bytes: Buffer, file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ConfigError(`config ${file} is not UTF-8 text: save it as UTF-8`, { cause: error });
  }
}

/** Throws ConfigError, which never quotes the text, because it may contain secrets. */
export function parseYaml(text: string, what: string): unknown {
  // Pretty errors and warnings are off, because they quote the text and take time for each error. The parser's own
  // check for duplicate keys is quadratic.
  const document = parseDocument(text, { prettyErrors: false, logLevel: "error", uniqueKeys: false });
  const [error] = document.errors;
  if (error?.code === "RESOURCE_EXHAUSTION") throw new ConfigError(`${what} is nested too deep for a config`);
  if (error) throw new ConfigError(`${what} is not valid YAML: ${error.message} ${placeIn(text, error.pos[0])}`);
  const doubledAt = doubledKey(document);
  if (doubledAt !== undefined)
    throw new ConfigError(`${what} is not valid YAML: Map keys must be unique ${placeIn(text, doubledAt)}`);
  try {
    return document.toJS();
  } catch {
    // The error quotes the alias, which may be a password that begins with a star.
    throw new ConfigError(
      `${what} has an alias without an anchor, or too many aliases: put values that begin with * in quotes`,
    );
  }
}

/** Returns the position of the first duplicate key; undefined when there is none. */
function doubledKey(document: Document): number | undefined {
  let doubledAt: number | undefined;
  visit(document, {
    Node: (_, node) => {
      if (!isMap(node)) return undefined;
      const seen = new Set<unknown>();
      for (const { key } of node.items) {
        if (!isScalar(key)) continue;
        if (seen.has(key.value)) {
          doubledAt = key.range?.[0] ?? 0;
          return visit.BREAK;
        }
        seen.add(key.value);
      }
      return undefined;
    },
  });
  return doubledAt;
}

function placeIn(text: string, offset: number): string {
  const lines = text.slice(0, offset).split("\n");
  return `at line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}
