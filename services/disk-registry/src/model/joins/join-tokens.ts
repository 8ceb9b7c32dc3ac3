import {
  type HostId,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  quoted,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import { type AddCall, addHost } from "../hosts/add-action.js";
import type { HostCertificate, JoinedHost, JoinToken } from "../store/join-token.js";
import type { RegistryTables, RegistryTransaction } from "../store/schema.js";

/** Maximum tokens that are kept, the ended ones included. */
export const MAX_TOKENS = 1_000;
/** Time for which an ended token without awaited hosts is kept, so that a late host is told why it is refused. */
const KEPT_AFTER_END_MS = 86_400_000;
const PATTERN = /^[A-Za-z0-9_*-]{1,64}$/;

export type TokenState = "VALID" | "ENDED" | "USED_UP" | "RESTORED";

export function tokenState({ isRestored, endsAtMs, usesLeft }: JoinToken, nowMs: number): TokenState {
  if (isRestored) return "RESTORED";
  if (endsAtMs <= nowMs) return "ENDED";
  return usesLeft === 0 ? "USED_UP" : "VALID";
}

/** Parses a pattern of host ids, in which `*` stands for any number of characters. Empty means all hosts. */
export function parseHostPattern(field: string, pattern: string): string {
  if (pattern === "") return "*";
  if (PATTERN.test(pattern)) return pattern;
  throw new InvalidArgumentError(
    `${field} ${quoted(pattern)} is malformed: give at most 64 letters, digits, '-', '_' and '*', e.g. rack7-*`,
    { about: { field } },
  );
}

/** Returns whether the host's id matches. Takes time in proportion to the lengths, whatever the pattern. */
export function isHostOf(pattern: string, hostId: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  if (!hostId.startsWith(first)) return false;
  const last = rest.pop();
  if (last === undefined) return hostId === first;
  let from = first.length;
  for (const piece of rest) {
    const found = hostId.indexOf(piece, from);
    if (found < 0) return false;
    from = found + piece.length;
  }
  return hostId.length - last.length >= from && hostId.endsWith(last);
}

/** Stores a new token, and forgets tokens that ended long ago. Throws ResourceExhaustedError when too many are kept. */
export function createToken(tx: RegistryTransaction, token: JoinToken): void {
  for (const old of [...tx.joinTokens.entries()])
    if (old.endsAtMs + KEPT_AFTER_END_MS <= token.createdAtMs && tx.joinedHosts.count("byToken", old.tokenId) === 0)
      tx.joinTokens.delete(old.tokenId);
  if (tx.joinTokens.size >= MAX_TOKENS)
    throw new ResourceExhaustedError(`${MAX_TOKENS} join tokens are kept: revoke some (diskmesh join-token revoke)`);
  tx.joinTokens.put(token);
}

/** Forgets a token and the hosts that it awaits. */
export function revokeToken(tx: RegistryTransaction, tokenId: string): void {
  if (tx.joinTokens.get(tokenId) === undefined)
    throw new NotFoundError(`no join token ${tokenId} (diskmesh join-token list)`);
  for (const { hostId } of [...tx.joinedHosts.by("byToken", tokenId)]) tx.joinedHosts.delete(hostId);
  tx.joinTokens.delete(tokenId);
}

/** A host that asks for a certificate. */
export interface Joining {
  readonly tokenId: string;
  /** Compares the secret with the hash of a token in constant time. */
  readonly hasSecretOf: (token: JoinToken) => boolean;
  readonly hostId: HostId;
  /** SHA-256 of the host's public key, in hex. */
  readonly keyHash: string;
  readonly certificate: HostCertificate;
}

/** Returns the token, ended or not. Throws the same error for an unknown token and for another secret. */
export function requireToken(tables: RegistryTables, tokenId: string, hasSecretOf: Joining["hasSecretOf"]): JoinToken {
  const token = tables.joinTokens.get(tokenId);
  if (token !== undefined && hasSecretOf(token)) return token;
  throw new InvalidStateError(
    "this registry knows no such join token, or it was revoked: make one with diskmesh join-token create",
  );
}

/**
 * Throws unless the host may join. Returns its token, or undefined when the same key has joined before: the answer was
 * lost, and the host gets another certificate without a further use.
 */
function requireMayJoin(tables: RegistryTables, joining: Joining, nowMs: number): JoinToken | undefined {
  const { tokenId, hostId, keyHash } = joining;
  const token = requireToken(tables, tokenId, joining.hasSecretOf);
  const joined = tables.joinedHosts.get(hostId);
  const isRepeated = joined?.tokenId === tokenId && joined.keyHash === keyHash && !joined.isRestored;
  const state = tokenState(token, nowMs);
  if (state !== "VALID" && !(isRepeated && state === "USED_UP")) throw new InvalidStateError(whyEnded(token, state));
  if (!isHostOf(token.hosts, hostId))
    throw new InvalidStateError(`join token ${tokenId} is for hosts ${token.hosts}, not for ${hostId}`);
  if (tables.hosts.get(hostId) !== undefined)
    throw new InvalidStateError(
      `host ${hostId} exists, and a token may not take its place: choose another id; or have an operator remove the host (diskmesh remove-host ${hostId}) and purge it`,
    );
  if (isRepeated) return undefined;
  if (joined !== undefined)
    throw new InvalidStateError(
      `host ${hostId} has joined with another key and not registered yet: choose another id; or have an operator revoke join token ${joined.tokenId}, which frees the id`,
    );
  return token;
}

function whyEnded({ tokenId, uses }: JoinToken, state: Exclude<TokenState, "VALID">): string {
  const why = {
    ENDED: "has ended",
    USED_UP: `has been used ${uses} times, which are all its uses`,
    RESTORED: "was ended by the restore of a backup",
  };
  return `join token ${tokenId} ${why[state]}: make another one with diskmesh join-token create`;
}

/** Maximum certificates that a host gets before it registers; a host asks again when an answer is lost. */
const MAX_AWAITED_CERTIFICATES = 16;
/** Minimum time between renewals, which bounds the certificates of a host to one for each day of their lifetime. */
const RENEWAL_PAUSE_MS = 86_400_000;

/**
 * Takes a use of the token, and awaits the host. Returns whether the same key has joined before, which takes no further
 * use.
 */
export function join(tx: RegistryTransaction, joining: Joining, nowMs: number): boolean {
  const token = requireMayJoin(tx, joining, nowMs);
  const { tokenId, hostId, keyHash, certificate } = joining;
  if (token !== undefined) tx.joinTokens.put({ ...token, usesLeft: token.usesLeft - 1 });
  const former = token === undefined ? (tx.joinedHosts.get(hostId)?.certificates ?? []) : [];
  if (former.length === MAX_AWAITED_CERTIFICATES)
    throw new ResourceExhaustedError(
      `host ${hostId} has got ${MAX_AWAITED_CERTIFICATES} certificates and not registered: start its agent, or have an operator revoke join token ${tokenId}, which frees the id`,
    );
  tx.joinedHosts.put({ hostId, tokenId, keyHash, certificates: [...former, certificate] });
  return token === undefined;
}

/**
 * Records another certificate of a host. Throws ResourceExhaustedError when the host renewed its certificate less than a
 * day ago.
 */
export function renew(tx: RegistryTransaction, hostId: HostId, certificate: HostCertificate, nowMs: number): void {
  const host = requireHost(tx, hostId);
  const { renewedAtMs = Number.NEGATIVE_INFINITY, certificates = [] } = host;
  if (Math.abs(nowMs - renewedAtMs) < RENEWAL_PAUSE_MS)
    throw new ResourceExhaustedError(
      `host ${hostId} has renewed its certificate within the last day: try again tomorrow`,
    );
  const valid = certificates.filter(({ endsAtMs }) => endsAtMs > nowMs);
  tx.hosts.put({ ...host, renewedAtMs: nowMs, certificates: [...valid, certificate] });
}

/** Ends the wait for a host that has registered, and records its certificates. Returns whether its token adds it with its drives. */
export function takeJoined(tx: RegistryTransaction, hostId: HostId): boolean {
  const joined: JoinedHost | undefined = tx.joinedHosts.get(hostId);
  if (joined === undefined) return false;
  tx.joinedHosts.delete(hostId);
  tx.hosts.put({ ...requireHost(tx, hostId), certificates: joined.certificates });
  return !joined.isRestored;
}

/** Adds a host that has joined, with its drives. Returns the result's text. */
export function addJoined(tx: RegistryTransaction, hostId: HostId, call: AddCall): string {
  try {
    return addHost(tx, hostId, call).message;
  } catch (error) {
    // The registration counts in any case; an operator repeats the addition.
    if (error instanceof InvalidStateError) return error.message;
    throw error;
  }
}
