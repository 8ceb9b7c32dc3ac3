import { type CST, Lexer, Parser } from "yaml";
import { YamlLimitError, type YamlLimits } from "./limits.js";

/** Not valid YAML, at an offset of the text. The message quotes nothing of it. */
export class YamlError extends Error {
  override readonly name = "YamlError";

  constructor(
    readonly offset: number,
    message: string,
  ) {
    super(message);
  }
}

/**
 * The tokens of a text of one document. What is too much is refused while it is read, before anything is made of it: a
 * few bytes of YAML can stand for much memory, and its nesting for a stack that overflows.
 */
export function boundedTokens(text: string, limits: YamlLimits, onNewLine: (offset: number) => void): CST.Token[] {
  const parser = new Parser(onNewLine);
  onNewLine(0);
  const tokens: CST.Token[] = [];
  let documents = 0;
  const keep = (read: Iterable<CST.Token>): void => {
    for (const token of read) {
      if (token.type === "document" && ++documents > 1) {
        throw new YamlError(token.offset, "it holds more than one document");
      }
      tokens.push(token);
    }
  };
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    const { offset } = parser;
    keep(parser.next(lexeme));
    if (++count > limits.maxTokens) throw new YamlLimitError(offset, "maxTokens", limits);
    // Beside lists and mappings: the document, and the text that is being read.
    if (parser.stack.length - 2 > limits.maxDepth) throw new YamlLimitError(offset, "maxDepth", limits);
    if (keysOf(parser.stack.at(-1)) > limits.maxKeys) throw new YamlLimitError(offset, "maxKeys", limits);
  }
  keep(parser.end());
  return tokens;
}

function keysOf(token: CST.Token | undefined): number {
  if (token?.type === "block-map") return token.items.length;
  return token?.type === "flow-collection" && token.start.source === "{" ? token.items.length : 0;
}
