/** Stands where a secret was. */
export const REDACTED = "<redacted>";

/** Names of fields whose values nobody needs to see. */
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
  "env",
  "properties",
];

// Shorter texts are no secrets worth the name, and are part of too many words.
const MIN_SECRET_LENGTH = 4;

/** Hides texts that must not be seen, in whatever others say: log lines, errors, results, traces. */
export class Redactor {
  readonly #pattern: RegExp | undefined;

  /** Every text and number inside the values given is a secret, in each form in which a program may print it. */
  constructor(values: readonly unknown[]) {
    // By line as well, since logs come by line.
    const texts = new Set(values.flatMap(textsIn).flatMap((text) => [text, ...text.split(/\r?\n/).map(trimmed)]));
    const secrets = [...texts].filter(isSecret);
    const longestFirst = [...new Set(secrets.flatMap(formsOf))].sort((a, b) => b.length - a.length).map(escaped);
    const inBase64 = [...new Set(secrets.flatMap(base64StemsOf))].map((stem) => `${escaped(stem)}[\\w+/=-]*`);
    if (secrets.length > 0) this.#pattern = new RegExp([...longestFirst, ...inBase64].join("|"), "g");
  }

  text(text: string): string {
    return this.#pattern ? text.replace(this.#pattern, REDACTED) : text;
  }

  /** A value of JSON, with every text in it, names included, as `text` has it. */
  value(value: unknown): unknown {
    if (this.#pattern === undefined) return value;
    if (typeof value === "string") return this.text(value);
    if (typeof value === "number") return this.text(String(value)) === String(value) ? value : REDACTED;
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => this.value(each));
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [this.text(name), this.value(each)]));
  }
}

/** What in a value is secret by its name, and the passwords in its URLs. */
export function secretsNamedIn(value: unknown): unknown[] {
  if (typeof value === "string")
    return [...value.matchAll(/:\/\/[^/@\s:]*:([^/@\s]+)@/g)].map(([, password]) => password);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => (SECRET_NAMES.includes(name) ? [each] : secretsNamedIn(each)));
}

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

/** As it is, in JSON as several languages write it, and in a URL. */
function formsOf(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  // Half a surrogate pair has no form in a URL.
  const inPath = encodeURIComponent(Buffer.from(text, "utf8").toString("utf8"));
  const inForm = new URLSearchParams([["", text]]).toString().slice(1);
  const inUrls = [inPath, inForm].flatMap((url) => [url, url.replace(/%../g, (code) => code.toLowerCase())]);
  return [text, json, withCodes(json, /[<>&]/g), withCodes(json, /[\u0080-\uffff]/g), ...inUrls];
}

function withCodes(json: string, which: RegExp): string {
  return json.replace(which, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** What is the same of its Base64 whatever stands before and after it, e.g. a user's name and a line's end. */
function base64StemsOf(text: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text, "utf8")]);
    const encoded = bytes.toString("base64").slice(0, Math.floor((bytes.length * 8) / 6));
    const stem = encoded.slice(Math.ceil((before * 8) / 6));
    return [stem, stem.replaceAll("+", "-").replaceAll("/", "_")];
  });
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
