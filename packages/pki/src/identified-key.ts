import { createHash, type X509Certificate } from "node:crypto";
import { type Identity, InvalidArgumentError, parseIdentityUri, quoted } from "@diskmesh/domain";

/** Whose certificate it is, and with which key. */
export interface IdentifiedKey {
  readonly identity: Identity;
  /** SHA-256 of the public key in hex, as nats-server pins it. */
  readonly pin: string;
}

/**
 * Throws InvalidArgumentError unless the certificate names one identity and no other: a server that takes the first name
 * that it knows is told of none that leaves a choice.
 */
export function identifiedKey(certificate: X509Certificate): IdentifiedKey {
  const identity = parseIdentityUri(onlyUriOf(certificate) ?? "");
  if (identity === undefined)
    throw new InvalidArgumentError(
      `a certificate names ${quoted(certificate.subjectAltName ?? "nobody")}: one identity of diskmesh must be its only URI, with DNS names and addresses at most beside it`,
    );
  return { identity, pin: pinOf(certificate) };
}

/** The SHA-256 of a certificate's public key in hex. */
export function pinOf({ publicKey }: X509Certificate): string {
  return createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("hex");
}

/** Undefined when the certificate has another name beside one URI that a reader could take for an identity. */
export function onlyUriOf({ subjectAltName }: X509Certificate): string | undefined {
  const names = subjectAltName?.split(", ") ?? [];
  const others = names.filter((name) => !/^(DNS:[A-Za-z0-9.-]+|IP Address:[0-9A-Fa-f.:]+)$/.test(name));
  const [only = "", ...rest] = others;
  return rest.length === 0 && only.startsWith("URI:") ? only.slice("URI:".length) : undefined;
}
