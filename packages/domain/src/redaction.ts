/** Text that replaces a secret. */
export const REDACTED = "<redacted>";

/** Names of fields whose values are secret. */
export const SECRET_NAMES: readonly string[] = [
  "password",
  "passwd",
  "secret",
  "token",
  "authorization",
  "credentials",
  "privateKey",
  "private_key",
  "keyPem",
  "sessionKey",
  "env",
  "properties",
];

// Shorter texts are not redacted, because they occur in too many ordinary words.
const MIN_SECRET_LENGTH = 4;

/** Replaces secrets in texts from other programs: log lines, errors, results, traces. */
export class Redactor {
  /**
   * Forms of secrets by their first characters. A single regular expression of all forms would be too large with
   * certificates.
   */
  readonly #formsByStart = new Map<string, Form[]>();
  /** Pairs of characters with which any form begins, so that most of a text is skipped quickly. */
  readonly #startingPairs: Uint8Array;

  /** Redacts every text and number in the given values, in each form in which a program may print it. */
  constructor(values: readonly unknown[]) {
    // Includes each line of a text, because logs are processed by line.
    const texts = new Set(values.flatMap(textsIn).flatMap((text) => [text, ...text.split(/\r?\n/).map(trimmed)]));
    const secrets = [...texts].filter(isSecret);
    this.#startingPairs = secrets.length === 0 ? NO_PAIRS : new Uint8Array(2 ** 16);
    const longestFirst = [...new Set(secrets.flatMap(formsOf))].sort((a, b) => b.length - a.length);
    for (const text of longestFirst) this.#add({ text, isStem: false });
    for (const text of new Set(secrets.flatMap(base64StemsOf))) this.#add({ text, isStem: true });
  }

  text(text: string): string {
    if (this.#formsByStart.size === 0) return text;
    let shown = "";
    let from = 0;
    for (let at = 0; at + MIN_SECRET_LENGTH <= text.length; ) {
      const end = this.#startingPairs[pairAt(text, at)] === 1 ? this.#endOfSecret(text, at) : at;
      if (end > at) {
        shown += text.slice(from, at) + REDACTED;
        from = end;
      }
      at = Math.max(end, at + 1);
    }
    return from === 0 ? text : shown + text.slice(from);
  }

  /** Redacts a truncated text. A secret that the truncation cut at the end of the text is redacted as well. */
  beginning(text: string): string {
    const seen = this.text(text);
    for (let at = 0; at + MIN_SECRET_LENGTH <= seen.length; at++) {
      if (this.#startingPairs[pairAt(seen, at)] !== 1) continue;
      const end = seen.slice(at);
      if (this.#formsAt(seen, at).some((form) => form.text.startsWith(end))) return seen.slice(0, at) + REDACTED;
    }
    return seen;
  }

  /** Redacts all texts in a JSON value, names included, like `text`. */
  value(value: unknown): unknown {
    if (this.#formsByStart.size === 0) return value;
    if (typeof value === "string") return this.text(value);
    if (typeof value === "number") return this.text(String(value)) === String(value) ? value : REDACTED;
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => this.value(each));
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [this.text(name), this.value(each)]));
  }

  #add(form: Form): void {
    const start = form.text.slice(0, MIN_SECRET_LENGTH);
    this.#startingPairs[pairAt(start, 0)] = 1;
    const others = this.#formsByStart.get(start);
    if (others === undefined) this.#formsByStart.set(start, [form]);
    else others.push(form);
  }

  #formsAt(text: string, at: number): readonly Form[] {
    return this.#formsByStart.get(text.slice(at, at + MIN_SECRET_LENGTH)) ?? [];
  }

  /** Returns the end of the secret that begins at `at`; returns `at` when there is none. */
  #endOfSecret(text: string, at: number): number {
    const form = this.#formsAt(text, at).find((each) => text.startsWith(each.text, at));
    if (form === undefined) return at;
    if (!form.isStem) return at + form.text.length;
    BASE64_REST.lastIndex = at + form.text.length;
    BASE64_REST.test(text);
    return BASE64_REST.lastIndex;
  }
}

/** Returns the values that are secret by their names, and the passwords in URLs. */
export function secretsNamedIn(value: unknown): unknown[] {
  if (typeof value === "string")
    return [...value.matchAll(/:\/\/[^/@\s:]*:([^/@\s]+)@/g)].map(([, password]) => password);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => (SECRET_NAMES.includes(name) ? [each] : secretsNamedIn(each)));
}

interface Form {
  readonly text: string;
  /** True when all Base64 characters that follow belong to the secret. */
  readonly isStem: boolean;
}

const NO_PAIRS = new Uint8Array();

const BASE64_REST = /[\w+/=-]*/y;

/** Combines the low bytes of two characters. */
const pairAt = (text: string, at: number): number =>
  ((text.charCodeAt(at) & 0xff) << 8) | (text.charCodeAt(at + 1) & 0xff);

const trimmed = (line: string): string => line.trim();

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value === "number") return [String(value)];
  if (typeof value === "object" && value !== null) return Object.values(value).flatMap(textsIn);
  return [];
}

function isSecret(text: string): boolean {
  return text.length >= MIN_SECRET_LENGTH && !["true", "false", "null"].includes(text);
}

/** Returns the plain text and its forms in JSON of several languages, in JSON within JSON, in XML and in URLs. */
function formsOf(text: string): string[] {
  const json = inJson(text);
  const jsons = [json, withCodes(json, /[<>&]/g), withCodes(json, /[\u0080-\uffff]/g), json.replaceAll("/", "\\/")];
  // Replaces unpaired surrogates first, because encodeURIComponent throws for them.
  const inPath = encodeURIComponent(Buffer.from(text, "utf8").toString("utf8"));
  const inForm = new URLSearchParams([["", text]]).toString().slice(1);
  const inUrls = [inPath, inForm].flatMap((url) => [url, url.replace(/%../g, (code) => code.toLowerCase())]);
  return [text, ...jsons, ...jsons.map(inJson), ...inXml(text), ...inUrls];
}

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Forms in which libraries write double and single quotes in XML and HTML. */
const XML_QUOTES = [
  ['"', "'"],
  ["&quot;", "'"],
  ["&quot;", "&apos;"],
  ["&quot;", "&#39;"],
  ["&quot;", "&#x27;"],
  ["&#34;", "&#39;"],
] as const;

function inXml(text: string): string[] {
  const inText = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return XML_QUOTES.map(([double, single]) => inText.replaceAll('"', double).replaceAll("'", single));
}

function withCodes(json: string, which: RegExp): string {
  return json.replace(which, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Returns the parts of a text's Base64 form that do not depend on the text encoded before and after it, e.g. a user
 * name and a line's end. There is one part for each of the three alignments, in plain and URL-safe Base64.
 */
function base64StemsOf(text: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text, "utf8")]);
    const encoded = bytes.toString("base64").slice(0, Math.floor((bytes.length * 8) / 6));
    const stem = encoded.slice(Math.ceil((before * 8) / 6));
    return [stem, stem.replaceAll("+", "-").replaceAll("/", "_")];
  });
}
