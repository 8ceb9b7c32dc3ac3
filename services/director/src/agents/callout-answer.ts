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

/** The part of nats-server's request that counts; a JWT of its own, from a subject that nobody else may publish to. */
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
  /** Keys by which the agent of a VM may come. */
  readonly pinsOf: (agentId: string) => readonly string[];
  /** Returns true when the certificate of a host's agent is trusted. */
  readonly isTrusted: (certificate: X509Certificate) => boolean;
}

/** Answers nats-server whether it lets somebody in, and to which subjects, by the certificate alone. */
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

/** Somebody who was let in, as nats-server names him in its list of connections. */
export interface CalloutUser {
  readonly identity: Identity;
  /** The serial number of the client's certificate, in hex. */
  readonly serialNumber: string | undefined;
}

// nats-server keeps what it was answered for as long as the connection stands, and for all directors to see. It tells a
// certificate's key, too, but not its number, which is what revocations name.
function userName(identity: Identity, serialNumber: string): string {
  return identity.role === "vm-agent" ? identityUri(identity) : `${identityUri(identity)}#${serialNumber}`;
}

/** Undefined for a name that no answer gave. */
export function parseUserName(name: string): CalloutUser | undefined {
  const [uri = "", serialNumber] = name.split("#");
  const identity = parseIdentityUri(uri);
  return identity && { identity, serialNumber };
}

/** Throws unless the certificate is one that is let in. */
function whoIsLetIn(chains: readonly (readonly string[])[], { pinsOf, isTrusted }: Gate) {
  const [leaf] = chains[0] ?? [];
  if (leaf === undefined) throw new PermissionDeniedError("there is no certificate that an authority vouches for");
  const certificate = new X509Certificate(leaf);
  const { identity, pin } = identifiedKey(certificate);
  const isAllowed =
    identity.role === "vm-agent"
      ? pinsOf(identity.name).includes(pin)
      : identity.role === "disk-agent" && isTrusted(certificate);
  if (!isAllowed) throw new PermissionDeniedError(`${formatIdentity(identity)} is not let in with this certificate`);
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
