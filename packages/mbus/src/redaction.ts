const REDACTED = "<redacted>";

/** Keys of the first argument that hold secrets or bulk data, by method. */
const SECRET_KEYS: Readonly<Record<string, readonly string[]>> = {
  upload_blob: ["checksum", "payload"],
  update_settings: ["mbus", "blobstores"],
};

/** The arguments of a request as a log line may show them. */
export function redactedArguments(method: string, args: readonly unknown[]): readonly unknown[] {
  const keys = Object.hasOwn(SECRET_KEYS, method) ? SECRET_KEYS[method] : undefined;
  const [first, ...rest] = args;
  if (keys === undefined || typeof first !== "object" || first === null) return args;
  const shown: Record<string, unknown> = { ...first };
  for (const key of keys) if (key in shown) shown[key] = REDACTED;
  return [shown, ...rest];
}
