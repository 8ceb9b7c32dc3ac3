import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { hashPassword, isPasswordHash, isPasswordOf } from "@diskmesh/pki/password-hash";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import fc from "fast-check";
import { exportJWK, type JWTPayload, SignJWT } from "jose";
import { httpConfig, LOGIN_NAME } from "../config/http-config.js";
import { LoginRateLimiter } from "./login-rate-limiter.js";
import { Logins } from "./logins.js";
import { passwordQueue } from "./password-queue.js";
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
  it("RS256 and ES256 by key -> the user's name and scopes; the client's name without a user", async () => {
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

  it("a faulty token -> refused, without quoting it", async () => {
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

  it("any claims and any header -> a login with a safe name, or refused; of another key -> refused", async () => {
    const tokens = tokensOf(ec.publicKey);
    const other = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const mostly = <T>(usual: T, ...others: readonly unknown[]) =>
      fc.oneof({ weight: 9, arbitrary: fc.constant(usual) }, fc.constantFrom(...others), fc.jsonValue());
    const claims = fc.record({
      exp: mostly(4_102_444_800, 0, -1, "4102444800"),
      nbf: mostly(0, 4_102_444_800, "0"),
      jti: mostly("1", "1-r", ""),
      scope: fc.oneof(fc.jsonValue(), fc.constantFrom("a b", ["a"], [1, "a"], Array(2_000).fill("a"))),
      user_name: fc.oneof(fc.jsonValue(), fc.constantFrom("ann", "a\nb", "")),
    });
    const header = fc.record({ alg: mostly("ES256", "none", "HS256", ["ES256"]), crit: mostly(undefined, ["x"]) });
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(claims, fc.jsonValue()),
        header,
        fc.boolean(),
        async (payload, protectedHeader, isOurs) => {
          const signed = `${part(protectedHeader)}.${part(payload)}`;
          const key = { key: isOurs ? ec.privateKey : other.privateKey, dsaEncoding: "ieee-p1363" } as const;
          const token = `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
          const login = await tokens.login(token).catch((error) => {
            expect(error).to.include({ reason: "UNAUTHENTICATED" });
            return undefined;
          });
          if (login === undefined) return;
          expect(isOurs && protectedHeader.alg).to.equal("ES256");
          expect(login.name).to.match(LOGIN_NAME);
          for (const scope of login.scopes) expect(scope).to.be.a("string");
        },
      ),
      { numRuns: 200 },
    );
  });

  it("a secret in place of a public key -> refused, because its text is no key", async () => {
    const pem = rsa.publicKey.export({ type: "spki", format: "pem" });
    const token = new SignJWT(CLAIMS).setProtectedHeader({ alg: "HS256" }).setExpirationTime("10m");
    const forged = await token.sign(Buffer.from(pem));
    expect(await rejection(tokensOf(rsa.publicKey).login(forged))).to.include({ reason: "UNAUTHENTICATED" });
  });

  it("keys by URL -> read once; a failed read is not reported as a fault of the token", async () => {
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

describe("keys of tokens by URL", () => {
  const pairs = ["old", "new"].map((kid) => ({ kid, ...generateKeyPairSync("ec", { namedCurve: "P-256" }) }));
  const [old, fresh] = pairs;
  let reads = 0;
  let shown: typeof pairs = [];
  const server = createServer((_request, response) => {
    reads += 1;
    void Promise.all(
      shown.map(async ({ kid, publicKey }) => ({ ...(await exportJWK(publicKey)), kid, alg: "ES256" })),
    ).then((keys) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ keys })));
  });
  before(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
  after(() => server.close());
  beforeEach(() => {
    reads = 0;
  });

  function tokensFor(jwksMaxAgeMs: number): Tokens {
    const { keyFile, ...rest } = config({ keyFile: "unused" });
    const { port } = server.address() as AddressInfo;
    return new Tokens({ ...rest, jwksUrl: `http://127.0.0.1:${port}/token_keys` }, jwksMaxAgeMs);
  }
  const tried = async (tokens: Tokens, pair: (typeof pairs)[number] | undefined): Promise<string> => {
    if (pair === undefined) throw new TypeError("no key");
    const header = { alg: "ES256", kid: pair.kid };
    const token = await new SignJWT(CLAIMS).setProtectedHeader(header).setExpirationTime("10m").sign(pair.privateKey);
    return tokens.login(token).then(
      ({ name }) => name,
      (error) => error.reason,
    );
  };

  it("older than the maximum age -> read again: a revoked key is refused", async () => {
    const tokens = tokensFor(1);
    shown = pairs;
    expect([await tried(tokens, old), await tried(tokens, fresh)]).to.deep.equal(["ann", "ann"]);
    shown = pairs.slice(1);
    // The cached key set exceeds its maximum age of 1 ms once the clock has advanced.
    await eventually(async () => expect(await tried(tokens, old)).to.equal("UNAUTHENTICATED"));
    expect(await tried(tokens, fresh)).to.equal("ann");
  });

  it("a new key -> known within seconds, though the cache is fresh; made-up keys cause no more reads", async () => {
    const tokens = tokensFor(600_000);
    shown = pairs.slice(0, 1);
    expect(await tried(tokens, old)).to.equal("ann");
    shown = pairs;
    for (let tries = 0; tries < 20; tries++) await tried(tokens, fresh);
    expect(reads).to.be.at.most(2);
    await eventually(async () => expect(await tried(tokens, fresh)).to.equal("ann"));
    expect(await tried(tokens, old)).to.equal("ann");
  });
});

describe("passwords", () => {
  it("a hash -> matches its password only, and differs each time", async () => {
    const [hash, again] = await Promise.all([hashPassword("p"), hashPassword("p")]);
    expect(hash).not.to.equal(again);
    expect([isPasswordHash(hash), await isPasswordOf(hash, "p"), await isPasswordOf(hash, "q")]).to.deep.equal([
      true,
      true,
      false,
    ]);
    expect(isPasswordHash("p")).to.equal(false);
  });

  it("a right password -> cached for a minute, for this login and network only", async () => {
    const clock = new ManualClock();
    const users = [{ name: "ann", passwordHash: await hashPassword("p:q") }];
    const logins = new Logins(httpConfig.parse({ users }), clock);
    const basic = (text: string): string => `basic ${Buffer.from(text).toString("base64")}`;
    const tried = (text: string, address = "10.0.0.1"): Promise<unknown> =>
      logins.of(basic(text), address, signal).catch((error) => error.reason);
    expect(await tried("ann:p:q")).to.include({ name: "ann" });
    // A cached login must not bypass the rate limiter at another address, where the password may be a guess.
    for (let times = 0; times < 5; times++) expect(await tried("ann:p", "10.0.0.2")).to.equal("UNAUTHENTICATED");
    expect(await tried("ann:p:q", "10.0.0.2")).to.equal("RESOURCE_EXHAUSTED");
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

  it("many at once from a failing address -> no more attempts than one after the other", async () => {
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

describe("a right password in constant use", () => {
  it("requests less than a minute apart -> not checked again for an hour", async () => {
    const clock = new ManualClock();
    const logins = new Logins(
      httpConfig.parse({ users: [{ name: "ann", passwordHash: await hashPassword("p") }] }),
      clock,
    );
    const authorization = `Basic ${Buffer.from("ann:p").toString("base64")}`;
    // A password check observes the signal while it waits in the queue. A cached login does not wait.
    const tried = (each: AbortSignal) => logins.of(authorization, "10.0.0.1", each).catch((error) => error.message);
    const gone = AbortSignal.abort(new Error("checked"));
    expect(await tried(signal)).to.include({ name: "ann" });
    for (let minutes = 0; minutes < 71; minutes++) {
      await clock.advance(50_000);
      expect(await tried(gone)).to.include({ name: "ann" });
    }
    await clock.advance(50_000);
    expect(await tried(gone)).to.equal("checked");
  });
});

describe("the queue of password checks", () => {
  const limits = { maxConcurrentPasswordChecks: 1, maxWaitingPasswordChecks: 5 };

  it("one address with many checks -> another address is next, and has a place when the first has none left", async () => {
    const queued = passwordQueue(limits);
    const ends: (() => void)[] = [];
    const order: string[] = [];
    const refused: string[] = [];
    const all = ["a1", "a2", "a3", "a4", "b1", "c1", "b2", "c2"].map((name) =>
      queued(name.slice(0, 1), signal, () => {
        order.push(name);
        return new Promise<void>((end) => ends.push(end));
      }).catch((error) => refused.push(`${name} ${error.reason}`)),
    );
    for (let turn = 0; turn < 6; turn++) {
      await new Promise(setImmediate);
      ends.shift()?.();
    }
    await Promise.all(all);
    expect(order).to.deep.equal(["a1", "b1", "c1", "a2", "b2", "a3"]);
    // One address may occupy half of the queue, so a4 is refused. The queue is full when c2 arrives.
    expect(refused.sort()).to.deep.equal(["a4", "c2"].map((name) => `${name} QUEUE_FULL`));
  });

  it("a caller that leaves -> frees its place; an ended check -> frees its place, too", async () => {
    const queued = passwordQueue({ maxConcurrentPasswordChecks: 1, maxWaitingPasswordChecks: 2 });
    let end = (): void => {};
    const first = queued("a", signal, () => new Promise<void>((resolve) => (end = resolve)));
    const abort = new AbortController();
    const waiting = queued("b", abort.signal, async () => {});
    const next = queued("c", signal, async () => "checked");
    expect(await rejection(queued("d", signal, async () => {}))).to.have.property("reason", "QUEUE_FULL");
    abort.abort(new Error("gone"));
    expect(await rejection(waiting)).to.have.property("message", "gone");
    const last = queued("d", signal, async () => "checked, too");
    end();
    await first;
    expect([await next, await last]).to.deep.equal(["checked", "checked, too"]);
  });
});

describe("the login rate limiter", () => {
  it("ever new names from an address -> delayed like one name; names that succeeded from there are not", async () => {
    const clock = new ManualClock();
    const rateLimiter = new LoginRateLimiter(clock);
    rateLimiter.succeeded("10.0.0.1", "ann");
    // A script with an outdated password counts as one name, however often it fails.
    for (let tries = 0; tries < 30; tries++) rateLimiter.failed("10.0.0.1", "old");
    expect(rateLimiter.waitMs("10.0.0.1", "new")).to.equal(0);
    for (let names = 0; names < 19; names++) rateLimiter.failed("10.0.0.1", `random-${names}`);
    expect(rateLimiter.waitMs("10.0.0.1", "new")).to.equal(1_000);
    rateLimiter.failed("10.0.0.1", "random-19");
    expect(rateLimiter.waitMs("10.0.0.1", "new")).to.equal(2_000);
    expect([rateLimiter.waitMs("10.0.0.1", "ann"), rateLimiter.waitMs("10.0.0.2", "new")]).to.deep.equal([0, 0]);
    for (let tries = 0; tries < 5; tries++) rateLimiter.failed("10.0.0.1", "ann");
    expect(rateLimiter.waitMs("10.0.0.1", "ann")).to.equal(1_000);
  });

  it("each failure beyond five -> doubles the delay, up to a minute; an IPv6 network counts as one address", async () => {
    const clock = new ManualClock();
    const rateLimiter = new LoginRateLimiter(clock);
    const waits: number[] = [];
    for (let failures = 1; failures <= 14; failures++) {
      rateLimiter.failed(`2001:db8::${failures}`, "ann");
      waits.push(rateLimiter.waitMs("2001:db8::ffff", "ann"));
    }
    expect(waits).to.deep.equal([
      0, 0, 0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000,
    ]);
    expect([rateLimiter.waitMs("2001:db8:1::1", "ann"), rateLimiter.waitMs("2001:db8::1", "bob")]).to.deep.equal([
      0, 0,
    ]);
    await clock.advance(600_000);
    rateLimiter.failed("2001:db8::1", "ann");
    expect(rateLimiter.waitMs("2001:db8::1", "ann")).to.equal(0);
  });
});
