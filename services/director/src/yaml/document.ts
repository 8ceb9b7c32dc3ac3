import { InvalidArgumentError, quoted } from "@diskmesh/domain";
import { Composer, type CST, type Document, isMap, isNode, isScalar, Lexer, LineCounter, Parser } from "yaml";
import type { z } from "zod";
import { MAX_YAML_DEPTH, plainValue, tooDeep, YamlError } from "./plain.js";
import { wordsOf } from "./words.js";

/** The limits of a text. `what` names it in error messages: "cloud config `default`". */
export interface TextLimits {
  readonly what: string;
  readonly sizeBytes: number;
  /** It was accepted once, perhaps by an older version: what was added to the rules since does not hold for it. */
  readonly stored?: boolean;
  /** Then no error quotes the text. */
  readonly holdsSecrets?: boolean;
}

/** Returns the limits of a text that was accepted once. */
export function storedLimits(what: string): TextLimits {
  return { what, sizeBytes: Number.POSITIVE_INFINITY, stored: true };
}

/** A fault of a value, and its place. */
export interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** A fault of a part of a text. */
export interface Fault {
  readonly offset: number;
  readonly message: string;
}

/** The checks of a new text, beside its shape. */
export interface Checks<Value> {
  /** Every other key of the outermost mapping is refused. */
  readonly knownKeys?: readonly string[];
  readonly faultOf?: (document: Document.Parsed) => Fault | undefined;
  readonly issuesOf?: (value: Value) => Iterable<Issue>;
}

interface ReadDocument {
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
  readonly value: unknown;
}

const MOST_ISSUES_TOLD = 5;
const MOST_KEYS_TOLD = 10;

const COMPOSER_OPTIONS: ConstructorParameters<typeof Composer>[0] = {
  prettyErrors: false,
  logLevel: "error",
  // Takes time that is quadratic in the keys of a mapping; `plainValue` looks for keys that come twice.
  uniqueKeys: false,
  // Sets and ordered maps are read as the mappings and lists that they are: JSON has no others.
  resolveKnownTags: false,
  customTags: (tags) => tags.filter((tag) => typeof tag === "string" || tag.collection === undefined || isPlain(tag)),
};

function isPlain(tag: { readonly tag: string }): boolean {
  return tag.tag === "tag:yaml.org,2002:map" || tag.tag === "tag:yaml.org,2002:seq";
}

/** Reads YAML from outside and checks its shape. An error names the line. */
export function parseYaml<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  limits: TextLimits,
  { knownKeys, faultOf, issuesOf }: Checks<z.output<Schema>> = {},
): z.output<Schema> {
  const { what, stored } = limits;
  const read = readDocument(text, limits);
  if (knownKeys !== undefined && !stored) refuseUnknownKeys(read, what, knownKeys);
  const fault = stored ? undefined : faultOf?.(read.document);
  if (fault !== undefined) {
    const { line } = read.lines.linePos(fault.offset);
    throw new InvalidArgumentError(`the ${what} is not as expected: line ${line}: a value ${fault.message}`);
  }
  const result = schema.safeParse(read.value);
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

/** The value of a YAML text, whatever its shape. */
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
 * The tokens of a text. Deep nesting is refused before anything recurses into it: V8 ends the process, and not the
 * thread, when it compiles a regular expression near the end of a stack.
 */
function tokensOf(text: string, lines: LineCounter): CST.Token[] {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  const tokens: CST.Token[] = [];
  for (const lexeme of new Lexer().lex(text)) {
    const { offset } = parser;
    tokens.push(...parser.next(lexeme));
    // Beside lists and mappings the stack has the document and the text that is being read.
    if (parser.stack.length - 2 > MAX_YAML_DEPTH) throw tooDeep(offset);
  }
  tokens.push(...parser.end());
  return tokens;
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

/** Returns the line of the innermost part of the path that exists. */
function lineOf({ document, lines }: ReadDocument, path: readonly (string | number)[]): number {
  for (let length = path.length; length >= 0; length--) {
    const node = nodeAt(document, path.slice(0, length));
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}

/** The key, where the path ends with one. */
function nodeAt(document: Document.Parsed, path: readonly (string | number)[]): unknown {
  if (path.length === 0) return document.contents;
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const name = String(path.at(-1));
  if (!isMap(parent)) return document.getIn(path, true);
  return parent.items.find(({ key }) => isScalar(key) && String(key.value) === name)?.key;
}
