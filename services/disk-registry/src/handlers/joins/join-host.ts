import { timingSafeEqual } from "node:crypto";
import { hostPortOf, InvalidArgumentError, isJsonObject, parseHostId, parseId } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { join, requireToken } from "../../model/joins/join-tokens.js";
import { certify } from "./certify.js";
import { hashOf } from "./join-tokens.js";

/** The answer to a host that joins. */
export interface JoinAnswer {
  /** PEM: the certificate, followed by that of its authority. */
  readonly certificate: string;
  /** Port of this registry's gRPC server, as others reach it. */
  readonly registryPort: number;
}

/** Answers the request of a host for its first certificate. */
export async function joinHost(context: Context, body: unknown): Promise<JoinAnswer> {
  const { tablet, clock, config, fleet } = context;
  fleet.requireLeads();
  const { tokenId, secretHash, hostId, signingRequest } = parseJoin(body);
  const hasSecretOf = (token: { readonly secretHash: string }): boolean =>
    timingSafeEqual(secretHash, Buffer.from(token.secretHash, "hex"));
  // Reads the token before the signing request, so that nobody without a token has the registry verify and sign.
  await tablet.read((tables) => requireToken(tables, tokenId, hasSecretOf));
  const certificate = await certify(context, {
    hostId,
    signingRequest,
    event: { user: `join-token ${tokenId}`, action: "JoinHost" },
    decide: (tx, { keyHash }, certificate) =>
      join(tx, { tokenId, hasSecretOf, hostId, keyHash, certificate }, clock.nowMs()),
  });
  const { advertisedAddress = "", listen } = config;
  return { certificate, registryPort: hostPortOf(advertisedAddress)?.port ?? listen.port };
}

const FIELDS = ["tokenId", "secret", "hostId", "request"] as const;

function parseJoin(body: unknown) {
  if (!isJsonObject(body)) throw new InvalidArgumentError("the request must be a JSON object");
  const [tokenId = "", secret = "", hostId = "", request = ""] = FIELDS.map((field) => {
    const value = body[field];
    if (typeof value === "string") return value;
    throw new InvalidArgumentError(`${field} must be text`, { about: { field } });
  });
  return {
    tokenId: parseId("tokenId", tokenId),
    secretHash: hashOf(secret),
    hostId: parseHostId(hostId, "hostId"),
    signingRequest: request,
  };
}
