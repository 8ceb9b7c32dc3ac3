import { isJsonObject, REDACTED, Redactor } from "@diskmesh/domain";

/** An argument that holds secrets or bulk data: all of it, or only the listed keys. */
interface SecretArgument {
  readonly index: number;
  readonly keys?: readonly string[];
}

/**
 * Disk hints hold, among others, passwords of iSCSI targets. CPIs choose their content, so the whole hint is hidden.
 */
const HINT: SecretArgument = { index: 1 };

const SECRETS: ReadonlyMap<string, SecretArgument> = new Map([
  ["upload_blob", { index: 0, keys: ["checksum", "payload"] }],
  // A holder of these values could replace the uploaded logs.
  ["fetch_logs_with_signed_url", { index: 0, keys: ["signed_url", "blobstore_headers"] }],
  ["update_settings", { index: 0, keys: ["mbus", "blobstores"] }],
  ["add_persistent_disk", HINT],
  ["add_dynamic_disk", HINT],
  // BOSH's agent protocol passes the disk hint to mount_disk as an argument.
  ["mount_disk", HINT],
]);

/** Returns the arguments of a request with secrets redacted, for log lines. */
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

/** Returns a redactor that hides a request's secret arguments in an agent's replies. */
export function redactorOf(method: string, args: readonly unknown[]): Redactor {
  const secret = SECRETS.get(method);
  const arg = secret && args[secret.index];
  if (secret === undefined || arg === null || arg === undefined) return new Redactor([]);
  if (secret.keys === undefined) return new Redactor([withoutPath(arg)]);
  return new Redactor(secret.keys.map((key) => (arg as Record<string, unknown>)[key]));
}

/**
 * Returns the parts of a disk hint to redact from replies: all but its path, which is not secret and which a reader of
 * the reply needs to find the disk.
 */
function withoutPath(hint: unknown): unknown {
  if (isPath(hint)) return undefined;
  return isJsonObject(hint) && isPath(hint.path) ? { ...hint, path: undefined } : hint;
}

const isPath = (value: unknown): boolean => typeof value === "string" && value.startsWith("/");
