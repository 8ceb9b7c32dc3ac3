import { createHash, type X509Certificate } from "node:crypto";
import { type Identity, InvalidArgumentError, parseIdentityUri, quoted } from "@diskmesh/domain";

/** Identity and key that a certificate binds. */
export interface IdentifiedKey {
  readonly identity: Identity;
  /** SHA-256 of the public key in hex, as nats-server pins it. */
  readonly pin: string;
}

/**
 * Returns the identity and key of a certificate. Throws InvalidArgumentError unless it names exactly one identity,
 * because a server that reads several names would take the first one it knows.
 */
export function identifiedKey(certificate: X509Certificate): IdentifiedKey {
  const identity = parseIdentityUri(onlyUriOf(certificate) ?? "");
  if (identity === undefined)
    throw new InvalidArgumentError(
      `the certificate's names are ${quoted(certificate.subjectAltName ?? "none")}: exactly one URI must be a diskmesh identity; only DNS names and addresses may be beside it`,
    );
  return { identity, pin: pinOf(certificate) };
}

/** Returns the SHA-256 of a certificate's public key, in hex. */
export function pinOf({ publicKey }: X509Certificate): string {
  return createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("hex");
}

/** Returns the certificate's only URI. Undefined when any further name could be read as an identity. */
export function onlyUriOf({ subjectAltName }: X509Certificate): string | undefined {
  const names = subjectAltName?.split(", ") ?? [];
  const others = names.filter((name) => !/^(DNS:[A-Za-z0-9.-]+|IP Address:[0-9A-Fa-f.:]+)$/.test(name));
  const [only = "", ...rest] = others;
  return rest.length === 0 && only.startsWith("URI:") ? only.slice("URI:".length) : undefined;
}
