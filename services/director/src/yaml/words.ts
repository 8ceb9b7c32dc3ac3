import type { ErrorCode } from "yaml";

/**
 * Returns a description of a parse error that quotes nothing, because the parser's own messages quote the text, which
 * may contain secrets.
 */
export const wordsOf = (code: ErrorCode): string => WORDS[code];

const WORDS: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: "an alias has an anchor or a tag of its own",
  BAD_ALIAS: "an anchor or alias has an invalid name, or an alias has no anchor",
  BAD_COLLECTION_TYPE: "a tag does not fit the list or mapping that it stands before",
  BAD_DIRECTIVE: "a line that begins with % is not a valid directive",
  BAD_DQ_ESCAPE: "a text in double quotes has an invalid \\ escape",
  BAD_INDENT: "the indentation is wrong, or a list or mapping is not closed",
  BAD_PROP_ORDER: "an anchor or tag stands in the wrong place",
  BAD_SCALAR_START: "a value begins with a character that needs quotes",
  BLOCK_AS_IMPLICIT_KEY:
    "a mapping begins in the wrong place: its line already has another :, or lacks its indentation",
  BLOCK_IN_FLOW: "a block stands within [ ] or { }",
  DUPLICATE_KEY: "the keys of a mapping must be unique",
  IMPOSSIBLE: "it cannot be parsed",
  KEY_OVER_1024_CHARS: "a key has more than 1,024 characters",
  MISSING_CHAR: "a character is missing, such as a closing quote or bracket, a comma, a : or the space behind it",
  MULTILINE_IMPLICIT_KEY: "a key goes over several lines, or a : is missing behind it",
  MULTIPLE_ANCHORS: "a value has more than one anchor",
  MULTIPLE_DOCS: "it holds more than one document",
  MULTIPLE_TAGS: "a value has more than one tag",
  NON_STRING_KEY: "a key is not a text",
  RESOURCE_EXHAUSTION: "it is nested too deep to be read",
  TAB_AS_INDENT: "a tab is used for indentation: use spaces",
  TAG_RESOLVE_FAILED: "a tag is not known, or does not fit its value",
  UNEXPECTED_TOKEN: "a character stands where none is allowed",
};
