import { InvalidArgumentError, isJsonObject, quoted } from "@diskmesh/domain";
import { Composer, type CST, type Document, isMap, isNode, isScalar, Lexer, LineCounter, Parser } from "yaml";
import type { z } from "zod";
import { MAX_YAML_DEPTH, plainValue, tooDeep, YamlError } from "./plain.js";
import { wordsOf } from "./words.js";

/** The limits of a text. `what` names the text in error messages, e.g. "cloud config `default`". */
export interface TextLimits {
  readonly what: string;
  readonly sizeBytes: number;
  /** Set for a text accepted before, perhaps by an older version. Rules added later do not apply. */
  readonly stored?: boolean;
  /** Keeps errors from quoting the text. */
  readonly holdsSecrets?: boolean;
}

/** Returns the limits of a text that was accepted before. */
export function storedLimits(what: string): TextLimits {
  return { what, sizeBytes: Number.POSITIVE_INFINITY, stored: true };
}

/** A fault at a path within a value. */
export interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** A fault at an offset within a text. */
export interface Fault {
  readonly offset: number;
  readonly message: string;
}

/** Checks of a new text in addition to its schema. */
export interface Checks<Value> {
  /** Keys allowed in the top-level mapping. All others are refused but those that begin with `x-`, which are ignored. */
  readonly knownKeys?: readonly string[];
  readonly faultOf?: (document: Document.Parsed) => Fault | undefined;
  readonly issuesOf?: (value: Value) => Iterable<Issue>;
}

interface ReadDocument {
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
  readonly value: unknown;
}

/** Beginning of top-level keys that are ignored. Authors keep YAML anchors there, as in files of Docker Compose. */
const ANCHORS_ONLY = "x-";
const MOST_ISSUES_TOLD = 5;
const MOST_KEYS_TOLD = 10;

const COMPOSER_OPTIONS: ConstructorParameters<typeof Composer>[0] = {
  prettyErrors: false,
  logLevel: "error",
  // Disabled, because the check is quadratic in the keys of a mapping. `plainValue` finds duplicate keys.
  uniqueKeys: false,
  // Sets and ordered maps are read as plain mappings and lists, because JSON has no such types.
  resolveKnownTags: false,
  customTags: (tags) => tags.filter((tag) => typeof tag === "string" || tag.collection === undefined || isPlain(tag)),
};

function isPlain(tag: { readonly tag: string }): boolean {
  return tag.tag === "tag:yaml.org,2002:map" || tag.tag === "tag:yaml.org,2002:seq";
}

/** Parses external YAML and validates it against the schema. Errors name the line. */
export function parseYaml<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  limits: TextLimits,
  { knownKeys, faultOf, issuesOf }: Checks<z.output<Schema>> = {},
): z.output<Schema> {
  const { what, stored } = limits;
  const read = readDocument(text, limits);
  const value = knownKeys === undefined ? read.value : withoutAnchors(read.value);
  if (knownKeys !== undefined && !stored) refuseUnknownKeys({ ...read, value }, what, knownKeys);
  const fault = stored ? undefined : faultOf?.(read.document);
  if (fault !== undefined) {
    const { line } = read.lines.linePos(fault.offset);
    throw new InvalidArgumentError(`the ${what} is not as expected: line ${line}: a value ${fault.message}`);
  }
  const result = schema.safeParse(value);
  if (!result.success) throw notAsExpected(read, what, result.error.issues);
  if (stored || issuesOf === undefined) return result.data;
  const issues: Issue[] = [];
  for (const issue of issuesOf(result.data)) if (issues.push(issue) === MOST_ISSUES_TOLD) break;
  if (issues.length > 0) throw notAsExpected(read, what, issues);
  return result.data;
}

function notAsExpected(read: ReadDocument, what: string, issues: readonly Issue[]): InvalidArgumentError {
  const told = issues.slice(0, MOST_ISSUES_TOLD).map((issue) => {
    const path = issue.path.map((part) => (typeof part === "symbol" ? String(part) : part));
    const place = path.map((part) => (/^[\w-]{1,64}$/.test(String(part)) ? part : quoted(String(part)))).join(".");
    return `line ${lineOf(read, path)}: ${place || "the document"}: ${issue.message}`;
  });
  return new InvalidArgumentError(`the ${what} is not as expected: ${told.join("; ")}`);
}

/** Returns the value of a YAML text without a schema. */
export function readYaml(text: string, limits: TextLimits): unknown {
  return readDocument(text, limits).value;
}

function readDocument(text: string, limits: TextLimits): ReadDocument {
  const { what } = limits;
  const lengthBytes = Buffer.byteLength(text);
  if (lengthBytes > limits.sizeBytes) {
    throw new InvalidArgumentError(`the ${what} has ${lengthBytes} bytes: the limit is ${limits.sizeBytes}`);
  }
  if (text.trim() === "") throw new InvalidArgumentError(`the ${what} is empty: give YAML`);
  const lines = new LineCounter();
  try {
    const [document, more] = new Composer(COMPOSER_OPTIONS).compose(tokensOf(text, lines), true, text.length);
    const [error] = document?.errors ?? [];
    if (error) throw new YamlError(limits.holdsSecrets ? wordsOf(error.code) : error.message, error.pos[0]);
    if (more !== undefined) throw new YamlError(wordsOf("MULTIPLE_DOCS"), more.range[0]);
    return {
      document: document as Document.Parsed,
      lines,
      value: plainValue(document as Document.Parsed, { isNew: !limits.stored }),
    };
  } catch (error) {
    if (error instanceof YamlError) {
      const line = error.offset === undefined ? "" : `line ${lines.linePos(error.offset).line}: `;
      throw new InvalidArgumentError(`the ${what} ${error.verdict}: ${line}${error.message}`);
    }
    throw error;
  }
}

/**
 * Returns the tokens of a text. Deep nesting is refused here, before any recursion: V8 terminates the whole process,
 * not just the thread, when it compiles a regular expression near the end of a stack.
 */
function tokensOf(text: string, lines: LineCounter): CST.Token[] {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  const tokens: CST.Token[] = [];
  for (const lexeme of new Lexer().lex(text)) {
    const { offset } = parser;
    tokens.push(...parser.next(lexeme));
    // The stack also contains the document and the current scalar.
    if (parser.stack.length - 2 > MAX_YAML_DEPTH) throw tooDeep(offset);
  }
  tokens.push(...parser.end());
  return tokens;
}

/** Returns the document without the top-level keys that only hold anchors. */
export function withoutAnchors(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([key]) => !key.startsWith(ANCHORS_ONLY)));
}

function refuseUnknownKeys(read: ReadDocument, what: string, known: readonly string[]): void {
  const { value } = read;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return;
  const unknown = Object.keys(value).filter((key) => !known.includes(key));
  if (unknown.length === 0) return;
  const told = unknown.slice(0, MOST_KEYS_TOLD).map((key) => `${quoted(key)} in line ${lineOf(read, [key])}`);
  const more = unknown.length > MOST_KEYS_TOLD ? ` and ${unknown.length - MOST_KEYS_TOLD} more` : "";
  throw new InvalidArgumentError(
    `the ${what} has unknown top-level keys: ${told.join(", ")}${more}; known are ${known.join(", ")}`,
  );
}

/** Returns the line of the path's deepest part that exists in the document. */
function lineOf({ document, lines }: ReadDocument, path: readonly (string | number)[]): number {
  for (let length = path.length; length >= 0; length--) {
    const node = nodeAt(document, path.slice(0, length));
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}

/** Returns the key's node where the path ends with a key. */
function nodeAt(document: Document.Parsed, path: readonly (string | number)[]): unknown {
  if (path.length === 0) return document.contents;
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const name = String(path.at(-1));
  if (!isMap(parent)) return document.getIn(path, true);
  return parent.items.find(({ key }) => isScalar(key) && String(key.value) === name)?.key;
}
