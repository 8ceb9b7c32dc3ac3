import { createPublicKey, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { InvalidArgumentError, messageOf, UnauthenticatedError, UnavailableError } from "@diskmesh/domain";
import { createRemoteJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";
import { type HttpConfig, LOGIN_NAME } from "../config/http-config.js";
import type { Login } from "./login.js";

type TokensConfig = NonNullable<HttpConfig["tokens"]>;

const ALGORITHMS = ["RS256", "ES256"];
const CLOCK_TOLERANCE_S = 30;
/**
 * Minimum interval between reads of the key set. A token with an unknown key id causes a read, because the key may be
 * new. The interval bounds the reads that forged tokens cause.
 */
const KEYS_READ_AGAIN_MS = 5_000;
/** Timeout for reading the key set while a login waits. */
const JWKS_TIMEOUT_MS = 5_000;
/** Maximum age of the key set. A revoked key is refused after this time. */
const JWKS_MAX_AGE_MS = 600_000;
const MAX_SCOPES = 1_000;

/** Verifies tokens of the UAA. */
export class Tokens {
  readonly #config: TokensConfig;
  readonly #keyOf: JWTVerifyGetKey;

  constructor(config: TokensConfig, jwksMaxAgeMs = JWKS_MAX_AGE_MS) {
    this.#config = config;
    const { jwksUrl, keyFile } = config;
    this.#keyOf = jwksUrl === undefined ? fileKey(keyFile ?? "") : remoteKeys(jwksUrl, jwksMaxAgeMs);
  }

  /**
   * Returns the token's login. Throws UnauthenticatedError, which never quotes the token, and UnavailableError when the
   * keys cannot be read.
   */
  async login(token: string): Promise<Login> {
    const { issuer, audience } = this.#config;
    const expected = { ...(issuer !== undefined && { issuer }), ...(audience !== undefined && { audience }) };
    const options = {
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_TOLERANCE_S,
      requiredClaims: ["exp", "jti"],
      ...expected,
    };
    try {
      return loginOf((await jwtVerify(token, this.#keyOf, options)).payload);
    } catch (error) {
      if (error instanceof UnauthenticatedError) throw error;
      if (isOfToken(error)) throw new UnauthenticatedError(`the token is refused: ${error.code}`);
      throw new UnavailableError(`the keys that verify tokens cannot be read now: ${messageOf(error)}`);
    }
  }
}

function loginOf({ jti, scope, user_name: userName, client_id: clientId }: JWTPayload): Login {
  // UAA marks refresh tokens by this suffix; they are valid at the UAA only.
  if (typeof jti !== "string" || jti.endsWith("-r")) throw new UnauthenticatedError("the token is not an access token");
  const name = userName ?? clientId;
  if (typeof name !== "string" || !LOGIN_NAME.test(name))
    throw new UnauthenticatedError("the token names no user or client that could log in");
  const scopes = typeof scope === "string" ? scope.split(" ") : scope;
  const isList = Array.isArray(scopes) && scopes.length <= MAX_SCOPES;
  return { name, by: "token", scopes: isList ? scopes.filter((each) => typeof each === "string") : [] };
}

function fileKey(file: string): JWTVerifyGetKey {
  const key = readKey(file);
  const algorithm = key.asymmetricKeyType === "ec" ? "ES256" : "RS256";
  return async ({ alg }) => {
    if (alg === algorithm) return key;
    throw new errors.JOSEAlgNotAllowed("the key does not fit the token's algorithm");
  };
}

function readKey(file: string): KeyObject {
  try {
    const key = createPublicKey(readFileSync(file));
    if (key.asymmetricKeyType === "rsa" || key.asymmetricKeyDetails?.namedCurve === "prime256v1") return key;
  } catch (error) {
    throw new InvalidArgumentError(`cannot read http.tokens.keyFile ${file}: ${messageOf(error)}`, { cause: error });
  }
  throw new InvalidArgumentError(`http.tokens.keyFile ${file} is neither an RSA key nor an EC key on P-256`);
}

function remoteKeys(url: string, maxAgeMs: number): JWTVerifyGetKey {
  return createRemoteJWKSet(new URL(url), {
    timeoutDuration: JWKS_TIMEOUT_MS,
    cacheMaxAge: maxAgeMs,
    cooldownDuration: KEYS_READ_AGAIN_MS,
  });
}

/** Returns true for an error of the token itself, as opposed to the key set or the connection to it. */
function isOfToken(error: unknown): error is errors.JOSEError {
  return (
    error instanceof errors.JOSEError &&
    (/^ERR_(JWT|JWS|JOSE_ALG|JOSE_NOT)/.test(error.code) || error.code === "ERR_JWKS_NO_MATCHING_KEY")
  );
}
