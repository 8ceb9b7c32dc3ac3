import { InvalidArgumentError } from "@diskmesh/domain";
import { type Document, isNode, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";

/** What a text is, for error messages: "cloud config `default`". */
export interface TextLimits {
  readonly what: string;
  readonly sizeBytes: number;
  /** Then no error quotes the text. */
  readonly holdsSecrets?: boolean;
}

/** Reads YAML from outside and checks its shape. An error names the line. */
export function parseYaml<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  limits: TextLimits,
): z.output<Schema> {
  const { what } = limits;
  const lengthBytes = Buffer.byteLength(text);
  if (lengthBytes > limits.sizeBytes) {
    throw new InvalidArgumentError(`the ${what} has ${lengthBytes} bytes: the limit is ${limits.sizeBytes}`);
  }
  if (text.trim() === "") throw new InvalidArgumentError(`the ${what} is empty: give YAML`);
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error) {
    const text = limits.holdsSecrets ? error.code : error.message;
    throw new InvalidArgumentError(`the ${what} is not valid YAML: line ${lines.linePos(error.pos[0]).line}: ${text}`);
  }
  const result = schema.safeParse(toPlain(document, limits));
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, 5).map((issue) => {
    const path = issue.path.map((part) => (typeof part === "symbol" ? String(part) : part));
    return `line ${lineOf(document, lines, path)}: ${path.join(".") || "the document"}: ${issue.message}`;
  });
  throw new InvalidArgumentError(`the ${what} is not as expected: ${issues.join("; ")}`);
}

function toPlain(document: Document.Parsed, { what, holdsSecrets }: TextLimits): unknown {
  try {
    // Aliases are expanded at most so often: a few lines could stand for gigabytes.
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    if (holdsSecrets) throw new InvalidArgumentError(`the ${what} cannot be read: see its aliases`);
    throw new InvalidArgumentError(`the ${what} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/** Of the innermost part of the path that is there. */
function lineOf(document: Document.Parsed, lines: LineCounter, path: readonly (string | number)[]): number {
  for (let length = path.length; length >= 0; length--) {
    const node = length === 0 ? document.contents : document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}
