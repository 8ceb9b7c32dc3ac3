/** Secrets that cannot be confused with other texts, for one place that holds secrets. */
export interface Canaries {
  readonly text: string;
  readonly quoted: string;
  readonly number: number;
  readonly key: string;
}

/** Creates canaries. `place` makes texts unique, and `digits` the number. */
export function canariesOf(place: string, digits: number): Canaries {
  return {
    text: `canary-of-${place}-7f3a`,
    quoted: `canary "of" <${place}> & é/+`,
    number: 4_242_424_200 + digits,
    key: `-----BEGIN PRIVATE KEY-----\ncanaryLineOf${place}+/x\nsecondLineOf${place}+/y\n-----END PRIVATE KEY-----\n`,
  };
}

/** Yields each secret in the forms in which programs print texts. None of these forms may be visible. */
export function* formsOf(secrets: object): Generator<{ readonly form: string; readonly text: string }> {
  for (const [name, secret] of textsIn(secrets)) {
    const raw = String(secret);
    yield { form: `${name}, raw`, text: raw };
    yield { form: `${name}, JSON`, text: JSON.stringify(raw).slice(1, -1) };
    yield { form: `${name}, URL`, text: encodeURIComponent(raw) };
    yield { form: `${name}, form`, text: new URLSearchParams({ a: raw }).toString().slice(2) };
    yield { form: `${name}, Base64`, text: Buffer.from(raw).toString("base64").replace(/=+$/, "") };
    yield { form: `${name}, Base64 of a URL`, text: Buffer.from(raw).toString("base64url") };
    for (const line of raw.split("\n").filter((one) => one.includes("LineOf")))
      yield { form: `${name}, one line`, text: line };
  }
}

/** Formats all secrets, as a program without redaction would print them. */
export function told(secrets: object): string {
  return [...formsOf(secrets)].map(({ form, text }) => `told ${form}: ${text}`).join("\n");
}

function textsIn(value: unknown, name = ""): [name: string, secret: string | number][] {
  if (typeof value === "string" || typeof value === "number") return [[name, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([inner, each]) => textsIn(each, name === "" ? inner : `${name}.${inner}`));
}
