import type { AgentKey, AgentTrust } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";

/** A director that dies while create_vm runs, or an agent that does not say what it has taken, leaves one behind. */
const MAX_KEYS = 8;

/**
 * The keys of an agent that gets one more, of which nobody knows yet whether it will be used. The first one stays longest:
 * it is the one that was used before anything went wrong.
 */
export function withKey(keys: readonly AgentKey[] | undefined, key: AgentKey): readonly AgentKey[] {
  const [first, ...others] = (keys ?? []).filter(({ endsAtMs }) => endsAtMs > key.issuedAtMs);
  return first === undefined ? [key] : [first, ...[...others, key].slice(1 - MAX_KEYS)];
}

/**
 * Returns true when an agent should get another certificate: a third of its life is over, or another authority signs
 * now.
 */
function isOutdated(key: AgentKey, trust: AgentTrust, nowMs: number): boolean {
  const third = (key.endsAtMs - key.issuedAtMs) / 3;
  return nowMs >= key.issuedAtMs + third || key.authority !== trust.authority || key.trusted !== trust.trusted;
}

/** The same for all of its keys; of several nobody knows which it uses. */
export function isDue(keys: readonly AgentKey[], trust: AgentTrust, nowMs: number): boolean {
  const [first, ...others] = keys;
  return first !== undefined && (others.length > 0 || isOutdated(first, trust, nowMs));
}

/** When the last of an agent's certificates ends; undefined when it has none that NATS would take. */
export function endOfKeys(keys: readonly AgentKey[]): number | undefined {
  return keys.length === 0 ? undefined : Math.max(...keys.map(({ endsAtMs }) => endsAtMs));
}

/**
 * Returns true when NATS accepts none of the agent's certificates. The agent's silence then says nothing about its VM.
 */
export function isShutOut(keys: readonly AgentKey[] | undefined, nowMs: number): boolean {
  return keys !== undefined && (endOfKeys(keys) ?? 0) <= nowMs;
}

/** The state of an agent's certificate, for operators. */
export type CertificateState = "valid" | "due" | "ended" | "left_behind";

export function certificateState(keys: readonly AgentKey[], trust: AgentTrust, nowMs: number): CertificateState {
  if (keys.length === 0) return "left_behind";
  if (isShutOut(keys, nowMs)) return "ended";
  return isDue(keys, trust, nowMs) ? "due" : "valid";
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
