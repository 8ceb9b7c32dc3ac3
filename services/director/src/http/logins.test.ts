import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { hashPassword, isPasswordHash, isPasswordOf } from "@diskmesh/pki/password-hash";
import { ManualClock } from "@diskmesh/service";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { exportJWK, type JWTPayload, SignJWT } from "jose";
import { httpConfig } from "./http-config.js";
import { LoginBrake } from "./login-brake.js";
import { Logins } from "./logins.js";
import { Tokens } from "./tokens.js";

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const { signal } = new AbortController();

const CLAIMS: JWTPayload = { jti: "1", user_name: "ann", scope: ["bosh.read"] };

function tokenOf(key: KeyObject, alg: string, claims: JWTPayload = CLAIMS, ends = "10m"): Promise<string> {
  const token = new SignJWT(claims).setProtectedHeader({ alg, kid: "k" });
  return (ends === "" ? token : token.setExpirationTime(ends)).sign(key);
}

function tokensOf(key: KeyObject, more: object = {}): Tokens {
  const keyFile = join(temporaryFolder(), "key.pem");
  writeFileSync(keyFile, key.export({ type: "spki", format: "pem" }));
  return new Tokens(config({ keyFile, ...more }));
}

function config(tokens: object) {
  const parsed = httpConfig.parse({ tokens: { url: "https://127.0.0.1:8443", ...tokens } }).tokens;
  if (parsed === undefined) throw new TypeError("no tokens");
  return parsed;
}

describe("tokens", () => {
  it("RS256 and ES256 by key -> the user's name and scopes; a client's name where there is no user", async () => {
    for (const [pair, alg] of [
      [rsa, "RS256"],
      [ec, "ES256"],
    ] as const) {
      const tokens = tokensOf(pair.publicKey);
      expect(await tokens.login(await tokenOf(pair.privateKey, alg))).to.deep.equal({
        name: "ann",
        by: "token",
        scopes: ["bosh.read"],
      });
      const client = await tokenOf(pair.privateKey, alg, { jti: "1", client_id: "ci", scope: "a b" });
      expect(await tokens.login(client)).to.deep.equal({ name: "ci", by: "token", scopes: ["a", "b"] });
    }
  });

  it("what is not right about a token -> refused, without a word of it", async () => {
    const tokens = tokensOf(rsa.publicKey, { issuer: "uaa" });
    const good = { ...CLAIMS, iss: "uaa" };
    const other = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from(JSON.stringify(good)).toString("base64url")}.`;
    const refused = [
      await tokenOf(rsa.privateKey, "RS256"),
      await tokenOf(rsa.privateKey, "RS256", good, "-10m"),
      await tokenOf(rsa.privateKey, "RS256", good, ""),
      await tokenOf(rsa.privateKey, "RS256", { ...good, jti: "1-r" }),
      await tokenOf(rsa.privateKey, "RS256", { ...good, jti: undefined }),
      await tokenOf(rsa.privateKey, "RS256", { ...good, user_name: "a\nb" }),
      await tokenOf(rsa.privateKey, "PS256", good),
      await tokenOf(other.privateKey, "RS256", good),
      await tokenOf(ec.privateKey, "ES256", good),
      unsigned,
      "x",
    ];
    expect(await tokens.login(await tokenOf(rsa.privateKey, "RS256", good))).to.include({ name: "ann" });
    for (const token of refused) {
      const error = await rejection(tokens.login(token));
      expect(error).to.include({ reason: "UNAUTHENTICATED" });
      expect((error as Error).message).not.to.contain(token);
    }
  });

  it("a secret in place of a public key -> refused: its text is no key", async () => {
    const pem = rsa.publicKey.export({ type: "spki", format: "pem" });
    const token = new SignJWT(CLAIMS).setProtectedHeader({ alg: "HS256" }).setExpirationTime("10m");
    const forged = await token.sign(Buffer.from(pem));
    expect(await rejection(tokensOf(rsa.publicKey).login(forged))).to.include({ reason: "UNAUTHENTICATED" });
  });

  it("keys by address -> read once; while they cannot be read, that is no fault of the token", async () => {
    let reads = 0;
    let status = 503;
    const keys = JSON.stringify({ keys: [{ ...(await exportJWK(ec.publicKey)), kid: "k", alg: "ES256" }] });
    const server = createServer((_, response) => {
      reads += 1;
      response.writeHead(status, { "content-type": "application/json" }).end(keys);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/token_keys`;
      const { keyFile, ...rest } = config({ keyFile: "unused" });
      const tokens = new Tokens({ ...rest, jwksUrl });
      const token = await tokenOf(ec.privateKey, "ES256");
      expect(await rejection(tokens.login(token))).to.include({ reason: "UNAVAILABLE" });
      status = 200;
      for (let times = 0; times < 3; times++) expect(await tokens.login(token)).to.include({ name: "ann" });
      expect(reads).to.equal(2);
    } finally {
      server.close();
    }
  });
});

describe("passwords", () => {
  it("a hash -> fits its password alone, and differs each time", async () => {
    const [hash, again] = await Promise.all([hashPassword("p"), hashPassword("p")]);
    expect(hash).not.to.equal(again);
    expect([isPasswordHash(hash), await isPasswordOf(hash, "p"), await isPasswordOf(hash, "q")]).to.deep.equal([
      true,
      true,
      false,
    ]);
    expect(isPasswordHash("p")).to.equal(false);
  });

  it("one that was right -> remembered for a minute, under no other login", async () => {
    const clock = new ManualClock();
    const users = [{ name: "ann", passwordHash: await hashPassword("p:q") }];
    const logins = new Logins(httpConfig.parse({ users }), clock);
    const basic = (text: string): string => `basic ${Buffer.from(text).toString("base64")}`;
    const tried = (text: string): Promise<unknown> =>
      logins.of(basic(text), "10.0.0.1", signal).catch((error) => error.reason);
    expect(await tried("ann:p:q")).to.include({ name: "ann" });
    for (let times = 0; times < 5; times++) expect(await tried("ann:p")).to.equal("UNAUTHENTICATED");
    expect(await tried("ann:p")).to.equal("RESOURCE_EXHAUSTED");
    expect(await tried("ann:p:q")).to.include({ name: "ann" });
    await clock.advance(500);
    expect(await tried("ann:p")).to.equal("RESOURCE_EXHAUSTED");
    expect(await tried("nobody:x")).to.equal("UNAUTHENTICATED");
    await clock.advance(500);
    expect(await tried("ann:p")).to.equal("UNAUTHENTICATED");
    await clock.advance(60_000);
    expect(await tried("ann:p:q")).to.include({ name: "ann" });
  });

  it("many at once from an address that fails -> no more tries than one after the other", async () => {
    const logins = new Logins(
      httpConfig.parse({ users: [{ name: "ann", passwordHash: await hashPassword("p") }] }),
      new ManualClock(),
    );
    const guess = (text: string): Promise<string> =>
      logins
        .of(`Basic ${Buffer.from(`ann:${text}`).toString("base64")}`, "10.0.0.1", new AbortController().signal)
        .then(
          () => "in",
          (error) => error.reason,
        );
    const ends = await Promise.all(Array.from({ length: 20 }, (_, index) => guess(String(index))));
    expect(ends.filter((end) => end === "UNAUTHENTICATED").length).to.be.within(5, 6);
  });
});

describe("the brake on logins", () => {
  it("each failure beyond five -> twice the wait, up to a minute; a network of IPv6 counts as one address", async () => {
    const clock = new ManualClock();
    const brake = new LoginBrake(clock);
    const waits: number[] = [];
    for (let failures = 1; failures <= 14; failures++) {
      brake.failed(`2001:db8::${failures}`, "ann");
      waits.push(brake.waitMs("2001:db8::ffff", "ann"));
    }
    expect(waits).to.deep.equal([
      0, 0, 0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000,
    ]);
    expect([brake.waitMs("2001:db8:1::1", "ann"), brake.waitMs("2001:db8::1", "bob")]).to.deep.equal([0, 0]);
    await clock.advance(600_000);
    brake.failed("2001:db8::1", "ann");
    expect(brake.waitMs("2001:db8::1", "ann")).to.equal(0);
  });
});
