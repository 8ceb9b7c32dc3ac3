import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Identity, type Role, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { expect } from "chai";
import { Bench } from "../testing/note-bench.js";

describe("connections", () => {
  const bench = new Bench();
  before(async () => {
    const authority = await createAuthority({ commonName: "test", validDays: 1 });
    await issueInto(bench.folder, authority, "disk-registry", { role: "disk-registry", name: "" });
    await issueInto(bench.folder, authority, "operator", { role: "operator", name: "" });
    await issueInto(bench.folder, authority, "host-1", { role: "disk-agent", name: "host-1" });
    await issueInto(bench.folder, authority, "host-2", { role: "disk-agent", name: "host-2" });
    await issueInto(bench.folder, authority, "stranger", { role: "stranger" as Role, name: "" });
  });
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  it("give all their calls the identity of their own certificate", async () => {
    await bench.serve(
      { get: async (_request, call) => ({ text: `${call.identity.role} ${call.identity.name}`, count: 0 }) },
      { roles: ["operator", "disk-agent"] },
    );
    const expected = { operator: "operator ", "host-1": "disk-agent host-1", "host-2": "disk-agent host-2" };
    const clients = Object.keys(expected).map((name) => bench.client({ tls: bench.files(name) }));
    for (let round = 0; round < 3; round++) {
      const notes = await Promise.all(clients.map((client) => client.get({ text: "", count: 0 })));
      expect(notes.map(({ text }) => text)).to.deep.equal(Object.values(expected));
    }
  });

  it("whose certificate names no identity never reach HTTP/2, and are logged", async () => {
    await bench.serve();
    expect(await firstBytes(bench, "operator")).to.be.greaterThan(0);
    expect(await firstBytes(bench, "stranger")).to.equal(0);
    expect(bench.refused).to.have.length(1);
    expect(bench.refused[0]?.remoteAddress).to.contain("127.0.0.1");
    expect(bench.refused[0]?.reason).to.contain("names no identity");
    await rejection(bench.client({ tls: bench.files("stranger") }).get({ text: "", count: 0 }), UnavailableError);
    expect(bench.failures).to.deep.equal([]);
  });

  it("that are still in the handshake do not delay a stop", async () => {
    const server = await bench.serve();
    const halfOpen = bench.connectAs("operator", { manualHandshake: true });
    await new Promise((resolve) => halfOpen.once("connect", resolve));
    const closed = new Promise((resolve) => halfOpen.once("close", resolve));
    await server.drain();
    await closed;
  });
});

/**
 * Returns the number of bytes that the server sends to a silent client before the client sends any, or before the end.
 */
async function firstBytes(bench: Bench, name: string): Promise<number> {
  const socket = bench.connectAs(name);
  const length = await new Promise<number>((resolve) => {
    socket.once("data", (bytes) => resolve(bytes.length)).once("close", () => resolve(0));
  });
  socket.destroy();
  return length;
}

async function issueInto(folder: string, authority: KeyPair, name: string, identity: Identity): Promise<void> {
  const issued = await issueCertificate(authority, {
    identity,
    commonName: name,
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    validDays: 1,
    usages: ["server", "client"],
  });
  writeFileSync(join(folder, "ca.pem"), authority.certPem);
  writeFileSync(join(folder, `${name}.pem`), issued.certPem);
  writeFileSync(join(folder, `${name}-key.pem`), issued.keyPem);
}
