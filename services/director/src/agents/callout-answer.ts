import { createHash, randomUUID, X509Certificate } from "node:crypto";
import {
  formatIdentity,
  type Identity,
  identityUri,
  messageOf,
  PermissionDeniedError,
  parseIdentityUri,
} from "@diskmesh/domain";
import { mbusPermissions, NATS_ACCOUNT } from "@diskmesh/mbus";
import { identifiedKey } from "@diskmesh/pki";
import type { KeyPair } from "nkeys.js";
import * as z from "zod";

/**
 * The required fields of nats-server's request. The signature of the JWT is not checked, because only nats-server may
 * publish to the subject.
 */
const requestClaims = z.object({
  nats: z.object({
    user_nkey: z.string().max(100),
    server_id: z.object({ id: z.string().max(100) }),
    client_tls: z.object({ verified_chains: z.array(z.array(z.string())).max(16).default([]) }).optional(),
  }),
});

export interface Gate {
  /** Signs answers. */
  readonly issuer: KeyPair;
  /** Returns the pins of the keys that the VM agent may use. */
  readonly pinsOf: (agentId: string) => readonly string[];
  /** Returns true when the certificate of a host's agent, with the chain that nats-server verified, is trusted. */
  readonly isTrusted: (chain: readonly X509Certificate[]) => boolean;
}

/**
 * Returns the signed answer to an auth callout. The client's certificate alone decides about admission and the allowed
 * subjects.
 */
export function answerCallout(request: Uint8Array, gate: Gate, nowMs: number): string {
  const { user_nkey, server_id, client_tls } = requestClaims.parse(payloadOf(request)).nats;
  const sign = (claims: object, nats: object) =>
    signed(gate.issuer, { ...claims, sub: user_nkey, nats: { ...nats, version: 2 } }, nowMs);
  const answer = (nats: object) => sign({ aud: server_id.id }, { type: "authorization_response", ...nats });
  try {
    const { identity, serialNumber } = whoIsLetIn(client_tls?.verified_chains ?? [], gate);
    const { publish, subscribe } = mbusPermissions(identity);
    const limits = { subs: -1, data: -1, payload: -1 };
    const user = { type: "user", pub: { allow: publish }, sub: { allow: subscribe }, ...limits };
    return answer({ jwt: sign({ aud: NATS_ACCOUNT, name: userName(identity, serialNumber) }, user) });
  } catch (error) {
    return answer({ error: messageOf(error) });
  }
}

/** An admitted client, decoded from its user name in nats-server's list of connections. */
export interface CalloutUser {
  readonly identity: Identity;
  /** The serial number of the client's certificate, in hex. */
  readonly serialNumber: string | undefined;
}

// The user name carries the certificate's serial number because nats-server keeps the name for the life of the
// connection and shows it to all directors. nats-server reports the certificate's key but not its serial number, and
// revocations name serial numbers.
function userName(identity: Identity, serialNumber: string): string {
  return identity.role === "vm-agent" ? identityUri(identity) : `${identityUri(identity)}#${serialNumber}`;
}

/** Returns undefined for a user name that `userName` did not make. */
export function parseUserName(name: string): CalloutUser | undefined {
  const [uri = "", serialNumber] = name.split("#");
  const identity = parseIdentityUri(uri);
  return identity && { identity, serialNumber };
}

/** Throws PermissionDeniedError unless the certificate is accepted. */
function whoIsLetIn(chains: readonly (readonly string[])[], { pinsOf, isTrusted }: Gate) {
  const chain = (chains[0] ?? []).map((pem) => new X509Certificate(pem));
  const [certificate] = chain;
  if (certificate === undefined)
    throw new PermissionDeniedError("the client presented no certificate of a trusted authority");
  const { identity, pin } = identifiedKey(certificate);
  const isAllowed =
    identity.role === "vm-agent"
      ? pinsOf(identity.name).includes(pin)
      : identity.role === "disk-agent" && isTrusted(chain);
  if (!isAllowed) throw new PermissionDeniedError(`${formatIdentity(identity)} may not connect with this certificate`);
  return { identity, serialNumber: certificate.serialNumber };
}

function payloadOf(jwt: Uint8Array): unknown {
  const [, payload = ""] = Buffer.from(jwt).toString("latin1").split(".");
  return JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
}

/** Returns a JWT in nats-server's format. */
function signed(issuer: KeyPair, claims: object, nowMs: number): string {
  const text = JSON.stringify({ ...claims, iss: issuer.getPublicKey(), iat: Math.floor(nowMs / 1_000), jti: newId() });
  const body = [JSON.stringify({ typ: "JWT", alg: "ed25519-nkey" }), text].map(encoded).join(".");
  return `${body}.${encoded(issuer.sign(Buffer.from(body)))}`;
}

const encoded = (part: string | Uint8Array): string => Buffer.from(part).toString("base64url");
const newId = (): string => createHash("sha256").update(randomUUID()).digest("hex");
