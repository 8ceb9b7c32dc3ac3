/**
 * Characters that no terminal, page or log shows as such: controls but line feed and tab, format characters, of which
 * some turn the direction of the text around them, and separators of lines.
 */
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Returns the text with its invisible characters as JSON escapes, e.g. `\u202e`. JSON still means the same. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, escaped);
}

/** Returns JSON in whose texts the invisible characters are as `visible` has them, for a reader that shows the texts. */
export function visibleInJson(json: string): string {
  return json.replace(INVISIBLE, (character) => escaped(character).replaceAll("\\", "\\\\"));
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
