import type { AgentKey, AgentTrust } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";

/**
 * Maximum number of keys recorded for an agent. A director crash during create_vm leaves an extra key, and so does an
 * agent that does not report which key it uses.
 */
const MAX_KEYS = 8;

/**
 * Returns the agent's keys with a new key added, because the agent may use any of them. Drops ended keys. Beyond
 * MAX_KEYS also drops the oldest keys, but never the first, which worked before any failure.
 */
export function withKey(keys: readonly AgentKey[] | undefined, key: AgentKey): readonly AgentKey[] {
  const [first, ...others] = (keys ?? []).filter(({ endsAtMs }) => endsAtMs > key.issuedAtMs);
  return first === undefined ? [key] : [first, ...[...others, key].slice(1 - MAX_KEYS)];
}

/**
 * Returns true when a certificate should be replaced: a third of its lifetime is over, or the director's authority or
 * NATS CA has changed since its issue.
 */
function isOutdated(key: AgentKey, trust: AgentTrust, nowMs: number): boolean {
  const third = (key.endsAtMs - key.issuedAtMs) / 3;
  return nowMs >= key.issuedAtMs + third || key.authority !== trust.authority || key.trusted !== trust.trusted;
}

/**
 * Returns true when the agent should get a new certificate. An agent with several keys is always due, because the key
 * in use is unknown.
 */
export function isDue(keys: readonly AgentKey[], trust: AgentTrust, nowMs: number): boolean {
  const [first, ...others] = keys;
  return first !== undefined && (others.length > 0 || isOutdated(first, trust, nowMs));
}

/** Returns the end of the agent's last certificate; undefined without certificates. */
export function endOfKeys(keys: readonly AgentKey[]): number | undefined {
  return keys.length === 0 ? undefined : Math.max(...keys.map(({ endsAtMs }) => endsAtMs));
}

/**
 * Returns true when NATS accepts none of the agent's certificates. The agent's silence then does not show that its VM
 * is gone.
 */
export function isShutOut(keys: readonly AgentKey[] | undefined, nowMs: number): boolean {
  return keys !== undefined && (endOfKeys(keys) ?? 0) <= nowMs;
}

/** The state of an agent's certificate, as operators see it. */
export type CertificateState = "valid" | "due" | "ended" | "left_behind";

export function certificateState(keys: readonly AgentKey[], trust: AgentTrust, nowMs: number): CertificateState {
  if (keys.length === 0) return "left_behind";
  if (isShutOut(keys, nowMs)) return "ended";
  return isDue(keys, trust, nowMs) ? "due" : "valid";
}

export function mbusOf(env: JsonObject): JsonObject {
  return objectOf(objectOf(env.bosh).mbus);
}

export function envWithCert(env: JsonObject, cert: JsonObject): JsonObject {
  return { ...env, bosh: { ...objectOf(env.bosh), mbus: { ...mbusOf(env), cert } } };
}

function objectOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}
