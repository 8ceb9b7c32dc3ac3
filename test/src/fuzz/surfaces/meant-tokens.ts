import { createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { Random } from "../../random.js";
import { jsonText, strangeJson, strangeText } from "../strange.js";

/** Signers of tokens: the UAA that the director trusts, and signers that it must refuse. */
const SIGNERS = ["uaa", "uaa", "uaa", "nobody", "another", "public key"] as const;

/** A token in an input. It is signed when it is sent, because signatures differ each time. */
export interface MeantToken {
  /** Header and claims as signed. */
  readonly text: string;
  readonly signer: (typeof SIGNERS)[number];
}

const YEAR_2100_S = 4_102_444_800;
const HEADERS = [{ alg: "none" }, { alg: "ES256", crit: ["x"] }, { alg: "ES256", jwk: {} }, { alg: ["ES256"] }];
const NAMES = ["exp", "nbf", "iat", "jti", "scope", "user_name", "client_id", "iss", "aud", "__proto__"];
const TIMES = [0, -1, 1e300, 4_102_444_800.5, "4102444800", null];
const SCOPES = ["bosh.admin", "bosh.read", "bosh.teams.fuzz.admin", "bosh.teams..admin", "a".repeat(5_000)];

/** Returns a random token, mostly a valid one. */
export function meantToken(random: Random): MeantToken {
  const signer = random.pick(SIGNERS);
  const alg = signer === "public key" ? "HS256" : signer === "nobody" ? "none" : "ES256";
  const header = random.chance(0.85)
    ? Buffer.from(JSON.stringify({ alg, typ: "JWT" }))
    : jsonText(random, strangeHeader(random));
  const known = { jti: "fuzz", exp: YEAR_2100_S, scope: ["bosh.admin"], user_name: "fuzz" };
  if (random.chance(0.4)) return { text: signedText(header, Buffer.from(JSON.stringify(known))), signer };
  const claims = random.chance(0.2) ? strangeJson(random) : { ...known, [random.pick(NAMES)]: strangeClaim(random) };
  return { text: signedText(header, jsonText(random, claims)), signer };
}

function signedText(...parts: readonly Buffer[]): string {
  return parts.map((part) => part.toString("base64url")).join(".");
}

/** Returns whether the director must refuse the token because of its signature alone. */
export function isForged({ signer }: MeantToken): boolean {
  return signer !== "uaa";
}

/** Keys of a simulated UAA. */
export interface UaaKeys {
  readonly privateKey: KeyObject;
  /** Public key in PEM, as in the director's config. */
  readonly publicPem: string;
}

export function newUaaKeys(): UaaKeys {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { privateKey, publicPem: publicKey.export({ type: "spki", format: "pem" }).toString() };
}

/** Returns the signed token. */
export function signed({ text, signer }: MeantToken, uaa: UaaKeys): string {
  return `${text}.${signatureOf(text, signer, uaa).toString("base64url")}`;
}

function signatureOf(text: string, signer: MeantToken["signer"], { privateKey, publicPem }: UaaKeys): Buffer {
  if (signer === "nobody") return Buffer.alloc(0);
  // A faulty verifier that uses the public key as an HMAC secret would accept this signature, which anybody can create.
  if (signer === "public key") return createHmac("sha256", publicPem).update(text).digest();
  const key = signer === "uaa" ? privateKey : newUaaKeys().privateKey;
  return sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
}

function strangeHeader(random: Random): unknown {
  if (random.chance(0.5)) return random.pick(HEADERS);
  return random.chance(0.5)
    ? strangeJson(random)
    : { alg: "ES256", kid: strangeText(random), typ: strangeText(random) };
}

function strangeClaim(random: Random): unknown {
  if (random.chance(0.3)) return random.pick(TIMES);
  if (random.chance(0.3)) return Array.from({ length: random.pick([0, 1, 3, 2_000]) }, () => random.pick(SCOPES));
  return random.chance(0.5) ? strangeText(random) : strangeJson(random);
}
