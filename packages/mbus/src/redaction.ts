const REDACTED = "<redacted>";

/** Shorter texts hide nothing when they are hidden, and would tear holes into messages that hold them by chance. */
const MIN_SECRET_LENGTH = 4;

/** The argument of a method that holds secrets or bulk data: all of it, or these keys of it. */
interface SecretArgument {
  readonly index: number;
  readonly keys?: readonly string[];
}

/** Disk hints hold the passwords of iSCSI targets, among others; what CPIs put into them is not known. */
const HINT: SecretArgument = { index: 1 };

const SECRETS: ReadonlyMap<string, SecretArgument> = new Map([
  ["upload_blob", { index: 0, keys: ["checksum", "payload"] }],
  ["update_settings", { index: 0, keys: ["mbus", "blobstores"] }],
  ["add_persistent_disk", HINT],
  ["add_dynamic_disk", HINT],
  // Agents of seed 000 take the hint here.
  ["mount_disk", HINT],
]);

/** The arguments of a request as a log line may show them. */
export function redactedArguments(method: string, args: readonly unknown[]): readonly unknown[] {
  const secret = SECRETS.get(method);
  return args.map((arg, index) => (secret?.index === index ? redacted(arg, secret.keys) : arg));
}

function redacted(arg: unknown, keys: readonly string[] | undefined): unknown {
  if (arg === null || arg === undefined) return arg;
  if (keys === undefined) return REDACTED;
  if (typeof arg !== "object") return arg;
  const shown: Record<string, unknown> = { ...arg };
  for (const key of keys) if (key in shown) shown[key] = REDACTED;
  return shown;
}

/** What an agent says of a request, without the secrets of the request's arguments that it may repeat. */
export function redactedText(method: string, args: readonly unknown[], text: string): string {
  return withoutSecrets(secretsIn(method, args), text);
}

/** The result of a request, with every text in it as `redactedText` would have it. */
export function redactedValue(method: string, args: readonly unknown[], value: unknown): unknown {
  const secrets = secretsIn(method, args);
  return secrets.length === 0 ? value : valueWithoutSecrets(secrets, value);
}

function valueWithoutSecrets(secrets: readonly string[], value: unknown): unknown {
  if (typeof value === "string") return withoutSecrets(secrets, value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => valueWithoutSecrets(secrets, each));
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([key, each]) => [withoutSecrets(secrets, key), valueWithoutSecrets(secrets, each)]),
  );
}

function withoutSecrets(secrets: readonly string[], text: string): string {
  return secrets.reduce((shown, each) => shown.replaceAll(each, REDACTED), text);
}

/** The longest first: one may be part of another. */
function secretsIn(method: string, args: readonly unknown[]): string[] {
  const secret = SECRETS.get(method);
  const arg = secret && args[secret.index];
  if (secret === undefined || arg === null || arg === undefined) return [];
  const held = secret.keys === undefined ? arg : secret.keys.map((key) => (arg as Record<string, unknown>)[key]);
  return [...textsIn(held)].sort((a, b) => b.length - a.length);
}

/** As they are, and as they look within quotes. Paths are no secrets, and whoever looks for a disk needs them. */
function textsIn(value: unknown, found = new Set<string>()): Set<string> {
  if (typeof value === "string") {
    if (value.length >= MIN_SECRET_LENGTH && !value.startsWith("/"))
      found.add(value).add(JSON.stringify(value).slice(1, -1));
  } else if (typeof value === "object" && value !== null) {
    for (const each of Object.values(value)) textsIn(each, found);
  }
  return found;
}
