/**
 * Characters that terminals, pages and logs do not display: controls except line feed and tab, format characters, some
 * of which change the direction of surrounding text, and line separators.
 */
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Returns the text with invisible characters as JSON escapes, e.g. `\u202e`, which keep the meaning of JSON. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, escaped);
}

/** Returns JSON whose texts contain `visible`'s escapes, for readers that display the texts. */
export function visibleInJson(json: string): string {
  return json.replace(INVISIBLE, (character) => escaped(character).replaceAll("\\", "\\\\"));
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
