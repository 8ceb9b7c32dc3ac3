import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import type { Identity } from "@diskmesh/domain";
import { type AgentAuthority, issueAgentCertificate, issueCertificate, openAgentAuthority } from "@diskmesh/pki";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { createAccount, createUser, fromPublic } from "nkeys.js";
import { answerCallout, parseUserName } from "./callout-answer.js";

describe("answers to nats-server's auth callouts", () => {
  const issuer = createAccount();
  const userKey = createUser().getPublicKey();
  let [mesh, agents]: AgentAuthority[] = [];

  before(async () => {
    const folder = temporaryFolder();
    const open = (name: string) =>
      openAgentAuthority({ certFile: join(folder, name), keyFile: join(folder, `${name}-key`) }, { makes: true });
    [mesh, agents] = [await open("mesh"), await open("agents")];
  });

  const pair = (authority: AgentAuthority | undefined, identity: Identity) =>
    issueCertificate(authority as AgentAuthority, {
      identity,
      commonName: "anybody",
      dnsNames: [],
      ipAddresses: [],
      validDays: 1,
      usages: ["client"],
    });

  /** Returns the answer to the holder of a certificate, after checking its signatures. */
  function answer(chains: string[][] | undefined, pins: readonly string[] = []) {
    const nats = { user_nkey: userKey, server_id: { id: "SERVER" }, client_tls: { verified_chains: chains } };
    const request = Buffer.from(`e30.${Buffer.from(JSON.stringify({ nats })).toString("base64url")}.e30`);
    const authority = new X509Certificate(mesh?.certPem ?? "");
    const isTrusted = (chain: readonly X509Certificate[]) => chain.at(-1)?.verify(authority.publicKey) === true;
    const gate = { issuer, account: "MESH", pinsOf: (agentId: string) => (agentId === "a" ? pins : []), isTrusted };
    const claims = read(answerCallout(request, gate, 1_000_000));
    expect(claims).to.include({ aud: "SERVER", sub: userKey, iat: 1_000 });
    expect(claims.nats).to.include({ type: "authorization_response", version: 2 });
    return claims.nats as { readonly jwt?: string; readonly error?: string };
  }

  function read(jwt: string) {
    const [head = "", payload = "", signature = ""] = jwt.split(".");
    const key = fromPublic(issuer.getPublicKey());
    expect(key.verify(Buffer.from(`${head}.${payload}`), Buffer.from(signature, "base64url"))).to.equal(true);
    return JSON.parse(Buffer.from(payload, "base64url").toString()) as { readonly name: string; readonly nats: object };
  }

  it("a VM agent with a recorded key -> admitted to its own subjects, in the account, under its own name", async () => {
    const { certPem, pin } = await issueAgentCertificate(agents as AgentAuthority, "a", 1);
    const user = read(answer([[certPem]], ["other", pin]).jwt ?? "");
    expect(user).to.include({ aud: "MESH", sub: userKey, name: "spiffe://diskmesh/vm-agent/a" });
    expect(user.nats).to.deep.include({
      type: "user",
      pub: {
        allow: ["hm.agent.heartbeat.a", "hm.agent.alert.a", "hm.agent.shutdown.a", "director.*.a.*"],
      },
      sub: { allow: ["agent.a"] },
    });
  });

  it("a host agent with a certificate of the mesh's CA -> admitted under its name and the certificate's serial number", async () => {
    const { certPem } = await pair(mesh, { role: "disk-agent", name: "host-1" });
    const { serialNumber } = new X509Certificate(certPem);
    const { name } = read(answer([[certPem]]).jwt ?? "");
    expect(name).to.equal(`spiffe://diskmesh/disk-agent/host-1#${serialNumber}`);
    expect(parseUserName(name)).to.deep.equal({ identity: { role: "disk-agent", name: "host-1" }, serialNumber });
  });

  it("a user name that this director did not assign -> no identity or no serial number", () => {
    for (const name of ["", "#", "#AB", "somebody", "spiffe://diskmesh/nobody/x#AB"])
      expect(parseUserName(name), name).to.equal(undefined);
    const identity = { role: "director", name: "" };
    expect(parseUserName("spiffe://diskmesh/director")).to.deep.equal({ identity, serialNumber: undefined });
  });

  const REFUSED: [string, () => Promise<string[][] | undefined>, string][] = [
    ["no certificate", async () => undefined, "no certificate"],
    ["an empty chain", async () => [[]], "no certificate"],
    [
      "a key that is not recorded",
      async () => [[(await pair(agents, { role: "vm-agent", name: "a" })).certPem]],
      "vm-agent a may not connect",
    ],
    [
      "another agent's id",
      async () => [[(await pair(agents, { role: "vm-agent", name: "b" })).certPem]],
      "vm-agent b may not connect",
    ],
    [
      "an agent of a host that the agents' authority signed",
      async () => [[(await pair(agents, { role: "disk-agent", name: "host-1" })).certPem]],
      "disk-agent host-1 may not connect",
    ],
    [
      "a director, who is no user by callout",
      async () => [[(await pair(mesh, { role: "director", name: "" })).certPem]],
      "director may not connect",
    ],
    [
      "an operator",
      async () => [[(await pair(mesh, { role: "operator", name: "ann" })).certPem]],
      "operator ann may not connect",
    ],
    ["a text that is no certificate", async () => [["nothing"]], "PEM"],
  ];
  for (const [what, chains, says] of REFUSED)
    it(`${what} -> the client is refused`, async () => {
      const { jwt, error } = answer(await chains(), ["a pin"]);
      expect(jwt).to.equal(undefined);
      expect(error).to.contain(says);
    });

  it("a malformed request -> no answer", () => {
    const gate = { issuer, account: "MESH", pinsOf: () => [], isTrusted: () => false };
    for (const request of ["", "a.b.c", "e30.e30.e30"])
      expect(() => answerCallout(Buffer.from(request), gate, 0), request).to.throw();
  });
});
