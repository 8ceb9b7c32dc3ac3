import type { JsonObject } from "./json.js";

/** A certificate that was signed for a VM's agent, but for its key, which is given away and kept nowhere. */
export interface AgentKey {
  /** SHA-256 of its public key, in hex. */
  readonly pin: string;
  /** SHA-256 of the certificate of the authority that signed it, in hex. */
  readonly authority: string;
  /** SHA-256 of the authorities by which the agent was told to know NATS, in hex. */
  readonly trusted: string;
  readonly issuedAtMs: number;
  readonly endsAtMs: number;
}

/** What a new certificate is signed by and comes with. */
export interface AgentTrust {
  /** As an AgentKey has them. */
  readonly authority: string;
  readonly trusted: string;
}

/** As many as a VM may be made with: a director that dies while create_vm runs leaves one behind. */
const MAX_KEYS = 8;

/** The keys of an agent that gets one more. The oldest go: an agent that has one of them is made anew, as one that is silent. */
export function withKey(keys: readonly AgentKey[] | undefined, key: AgentKey): readonly AgentKey[] {
  return [...(keys ?? []), key].slice(-MAX_KEYS);
}

/** Whether an agent should get another certificate: a third of its life is over, or it is of another authority. */
export function isDue(key: AgentKey, trust: AgentTrust, nowMs: number): boolean {
  const third = (key.endsAtMs - key.issuedAtMs) / 3;
  return nowMs >= key.issuedAtMs + third || key.authority !== trust.authority || key.trusted !== trust.trusted;
}

/** The mbus settings of an env. */
export function mbusOf(env: JsonObject): JsonObject {
  return objectOf(objectOf(env.bosh).mbus);
}

/** The env of create_vm with a certificate for the agent. */
export function envWithCert(env: JsonObject, cert: JsonObject): JsonObject {
  return { ...env, bosh: { ...objectOf(env.bosh), mbus: { ...mbusOf(env), cert } } };
}

function objectOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}
