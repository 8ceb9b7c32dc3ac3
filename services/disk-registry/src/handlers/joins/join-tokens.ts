import { createHash, randomBytes } from "node:crypto";
import {
  type CreateJoinTokenRequest,
  type CreateJoinTokenResponse,
  type JoinToken as JoinTokenMessage,
  JoinTokenState,
  type ListJoinTokensRequest,
  type ListJoinTokensResponse,
  type RevokeJoinTokenRequest,
  type RevokeJoinTokenResponse,
} from "@diskmesh/api/registry";
import { InvalidArgumentError, InvalidStateError, parseId } from "@diskmesh/domain";
import { type CallContext, pageOf } from "@diskmesh/rpc";
import type { ChangeContext, Context } from "../../calls/context.js";
import {
  createToken,
  parseHostPattern,
  revokeToken,
  type TokenState,
  tokenState,
} from "../../model/joins/join-tokens.js";
import type { JoinToken } from "../../model/store/join-token.js";
import type { RegistryTables } from "../../model/store/schema.js";
import { saidBy } from "../../requests/requests.js";
import { ownAuthority } from "./own-authority.js";

const MIN_TTL_SECONDS = 60;
const MAX_TTL_SECONDS = 30 * 86_400;
const MAX_USES = 10_000;
const MAX_AWAITED = 100;

export async function createJoinToken(
  { tablet, clock, config, doing }: ChangeContext,
  request: CreateJoinTokenRequest,
  call: CallContext,
): Promise<CreateJoinTokenResponse> {
  const ttlSeconds = parseTtl(request.ttl);
  const hosts = parseHostPattern("hosts", request.hosts);
  const uses = parseUses(request.uses);
  const secret = randomBytes(32).toString("base64url");
  const nowMs = clock.nowMs();
  const token: JoinToken = {
    tokenId: randomBytes(6).toString("hex"),
    secretHash: hashOf(secret).toString("hex"),
    hosts,
    uses,
    usesLeft: uses,
    endsAtMs: nowMs + ttlSeconds * 1_000,
    createdBy: saidBy(call),
    createdAtMs: nowMs,
  };
  const fingerprint = await ownAuthority(config.tls);
  doing.message = `join token ${token.tokenId} for ${uses} hosts ${hosts}`;
  await tablet.transact((tx) => {
    if (config.join === undefined)
      throw new InvalidStateError(
        "this registry lets no host join: give it `join` in its config (docs/operate/join-hosts.md)",
      );
    createToken(tx, token);
  });
  return { token: `dmj1.${token.tokenId}.${secret}.${fingerprint}`, joinToken: tokenMessage(token, [], nowMs) };
}

export async function listJoinTokens(
  { tablet, clock }: Context,
  request: ListJoinTokensRequest,
): Promise<ListJoinTokensResponse> {
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "join tokens",
    rows: ({ joinTokens }, from) => joinTokens.entries(from),
    keyOf: ({ tokenId }) => tokenId,
    describe: (tables, token) => tokenMessage(token, awaited(tables, token), clock.nowMs()),
  });
  return { joinTokens: [...items], nextPageToken };
}

export async function revokeJoinToken(
  { tablet, doing }: ChangeContext,
  request: RevokeJoinTokenRequest,
): Promise<RevokeJoinTokenResponse> {
  const tokenId = parseId("token_id", request.tokenId);
  doing.message = `join token ${tokenId}`;
  await tablet.transact((tx) => revokeToken(tx, tokenId));
  return {};
}

/** Returns the SHA-256 of a token's secret. */
export const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();

function awaited(tables: RegistryTables, { tokenId }: JoinToken): string[] {
  const hostIds: string[] = [];
  for (const { hostId } of tables.joinedHosts.by("byToken", tokenId)) {
    if (hostIds.length === MAX_AWAITED) break;
    hostIds.push(hostId);
  }
  return hostIds;
}

const STATES: Readonly<Record<TokenState, JoinTokenState>> = {
  VALID: JoinTokenState.VALID,
  ENDED: JoinTokenState.ENDED,
  USED_UP: JoinTokenState.USED_UP,
  RESTORED: JoinTokenState.RESTORED,
};

function tokenMessage(token: JoinToken, awaitedHostIds: string[], nowMs: number): JoinTokenMessage {
  const { tokenId, hosts, uses, usesLeft, createdBy } = token;
  return {
    tokenId,
    hosts,
    uses,
    usesLeft,
    expireTime: new Date(token.endsAtMs),
    createdBy,
    createTime: new Date(token.createdAtMs),
    state: STATES[tokenState(token, nowMs)],
    awaitedHostIds,
  };
}

function parseTtl(ttl: CreateJoinTokenRequest["ttl"]): number {
  const { seconds = 0, nanos = 0 } = ttl ?? {};
  if (Number.isSafeInteger(seconds) && nanos === 0 && seconds >= MIN_TTL_SECONDS && seconds <= MAX_TTL_SECONDS)
    return seconds;
  throw new InvalidArgumentError(
    `ttl is ${seconds}.${String(nanos).padStart(9, "0")} s: it must be whole seconds from ${MIN_TTL_SECONDS} to ${MAX_TTL_SECONDS} (30 days)`,
    { about: { field: "ttl" } },
  );
}

function parseUses(uses: number): number {
  if (Number.isSafeInteger(uses) && uses >= 1 && uses <= MAX_USES) return uses;
  throw new InvalidArgumentError(`uses is ${uses}: it must be a whole number from 1 to ${MAX_USES}`, {
    about: { field: "uses" },
  });
}
