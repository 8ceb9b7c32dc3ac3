import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { exportJWK, SignJWT } from "jose";
import type { HttpClient } from "../testing/http-client.js";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";

const UAA = "https://uaa.example:8443";
const CONFIG = JSON.stringify({ type: "cloud", name: "default", content: "azs: [{name: z1}]\n" });

describe("logins with tokens of a UAA", () => {
  const known = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const unknown = generateKeyPairSync("rsa", { modulusLength: 2048 });
  let uaa: Server;
  let mesh: HttpDirector;
  let http: HttpClient;

  before(async () => {
    // A UAA's answer to GET /token_keys.
    const value = known.publicKey.export({ type: "spki", format: "pem" });
    const key = { ...(await exportJWK(known.publicKey)), use: "sig", kid: "uaa-jwt-key-1", alg: "RS256", value };
    const { certFile, keyFile, caFile } = (await testCertificates()).files("director");
    const tls = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
    uaa = createServer(tls, (_request, response) => response.end(JSON.stringify({ keys: [key] })));
    await new Promise<void>((resolve) => uaa.listen(0, "127.0.0.1", resolve));
    const jwksUrl = `https://127.0.0.1:${(uaa.address() as AddressInfo).port}/token_keys`;
    // The UAA's certificate is from a CA of its own, which this variable makes Node trust.
    process.env.NODE_EXTRA_CA_CERTS = caFile;
    mesh = await startHttpDirector({ tokens: { url: UAA, jwksUrl, issuer: `${UAA}/oauth/token` } });
    ({ http } = mesh);
  });
  after(async () => {
    delete process.env.NODE_EXTRA_CA_CERTS;
    uaa?.close();
    await mesh?.director.stop();
  });

  /** Returns an Authorization header with a token like the UAA's for `grant_type=client_credentials`. */
  async function authorization(change: object = {}, key: KeyObject = known.privateKey, ends = "10m"): Promise<string> {
    const claims = {
      jti: "5f2b",
      sub: "ops",
      authorities: ["bosh.admin"],
      scope: ["bosh.admin"],
      client_id: "ops",
      cid: "ops",
      azp: "ops",
      grant_type: "client_credentials",
      iss: `${UAA}/oauth/token`,
      zid: "uaa",
      aud: ["bosh", "ops"],
      ...change,
    };
    const token = new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "uaa-jwt-key-1", typ: "JWT" });
    return `bearer ${await token.setIssuedAt().setExpirationTime(ends).sign(key)}`;
  }
  const send = async (method: string, path: string, given: string, body?: string) => {
    const headers = { authorization: given, "content-type": "application/json" };
    return http.send(method, path, { login: "", headers, ...(body !== undefined && { body }) });
  };

  it("are announced where the CLI looks for them, also beside users, who log in as before", async () => {
    expect(JSON.parse((await http.send("GET", "/info")).body).user).to.equal("admin");

    const { user_authentication: announced } = JSON.parse((await http.send("GET", "/info", { login: "" })).body);
    expect(announced).to.deep.equal({ type: "uaa", options: { url: UAA, urls: [UAA] } });
  });

  it("of an admin -> logs in with its client's name, and changes objects", async () => {
    const token = await authorization();
    expect(JSON.parse((await send("GET", "/info", token)).body).user).to.equal("ops");
    expect((await send("POST", "/configs", token, CONFIG)).status).to.equal(201);
  });

  it("of a reader -> reads with its user's name, and changes nothing", async () => {
    const token = await authorization({ scope: ["bosh.read"], user_name: "ann" });
    expect(JSON.parse((await send("GET", "/info", token)).body).user).to.equal("ann");
    expect((await send("GET", "/tasks", token)).status).to.equal(200);
    const { status, body } = await send("POST", "/configs", token, CONFIG);
    expect([status, JSON.parse(body).code]).to.deep.equal([401, 600_000]);
  });

  const REFUSED: [what: string, make: () => Promise<string>][] = [
    ["a refresh token", () => authorization({ jti: "5f2b-r" })],
    ["of another UAA", () => authorization({ iss: "https://evil.example/oauth/token" })],
    ["that has ended", () => authorization({}, known.privateKey, "-10m")],
    ["signed by a key that the UAA does not publish", () => authorization({}, unknown.privateKey)],
  ];
  for (const [what, make] of REFUSED)
    it(`${what} -> 401`, async () => {
      expect((await send("GET", "/tasks", await make())).status).to.equal(401);
    });
});
