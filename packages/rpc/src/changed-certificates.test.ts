import { X509Certificate } from "node:crypto";
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Identity, UnauthenticatedError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { CurrentTls, type TlsFiles, WatchedFiles } from "@diskmesh/tls";
import { expect } from "chai";
import { Bench, deferred, eventually, type Note } from "./testing/note-bench.js";

const DAY_MS = 86_400_000;

const NOTE: Note = { text: "hello", count: 1 };

describe("certificates that change while connections are open", () => {
  const bench = new Bench();
  let authority: KeyPair;
  let revokedFile: string;
  beforeEach(async () => {
    authority = await createAuthority({ commonName: "one", validDays: 1 });
    writeFileSync(join(bench.folder, "ca.pem"), authority.certPem);
    revokedFile = join(bench.folder, "revoked");
    writeFileSync(revokedFile, "");
    await issue("disk-registry", { role: "disk-registry", name: "" });
    await issue("operator", { role: "operator", name: "" });
  });
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  async function issue(name: string, identity: Identity, by = authority, validDays = 1): Promise<void> {
    const names = { commonName: name, dnsNames: [], ipAddresses: [] };
    const made = await issueCertificate(by, { identity, ...names, validDays, usages: ["server", "client"] });
    writeFileSync(join(bench.folder, `${name}.pem`), made.certPem);
    writeFileSync(join(bench.folder, `${name}-key.pem`), made.keyPem);
  }
  const files = (name: string): TlsFiles => ({ ...bench.files(name), revokedFile });
  const serialOf = (name: string) => new X509Certificate(readFileSync(files(name).certFile)).serialNumber;
  /** Resolves once all users of the files have reloaded them. */
  async function takenUp(name: string): Promise<void> {
    const tls = CurrentTls.open(files(name));
    WatchedFiles.readAll();
    const said = () =>
      [files(name).certFile, files(name).caFile, revokedFile].map((file) => readFileSync(file, "utf8"));
    await eventually(async () => {
      const { cert, ca, revoked } = tls.material;
      expect([cert, ca, revoked].map(String)).to.deep.equal(said());
    });
    tls.close();
  }

  it("take effect for the next calls on both ends, and disturb no call under way", async () => {
    const another = deferred();
    await bench.serve({ list: (note) => twice(note, another.promise) }, { tls: files("disk-registry") });
    const client = bench.client({ tls: files("operator") });
    const list = client.list(NOTE)[Symbol.asyncIterator]();
    expect((await list.next()).value).to.deep.equal(NOTE);
    const before = serialOf("disk-registry");
    for (const name of ["disk-registry", "operator"] as const) {
      await issue(name, { role: name, name: "" });
      await takenUp(name);
      expect(await client.get(NOTE)).to.deep.equal(NOTE);
    }
    const socket = bench.connectAs("operator");
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    expect(socket.getPeerX509Certificate()?.serialNumber).to.equal(serialOf("disk-registry"));
    socket.destroy();
    expect(before).not.to.equal(serialOf("disk-registry"));
    another.resolve();
    expect((await list.next()).value).to.deep.equal(NOTE);
    expect((await list.next()).done).to.equal(true);
    expect(bench.failures).to.deep.equal([]);
  });

  it("take effect for the next call; calls under way complete, or fail when the server is revoked", async () => {
    const begun: (() => void)[] = [];
    await bench.serve(
      {
        get: (note) =>
          note.count === NOTE.count ? Promise.resolve(note) : new Promise((resolve) => begun.push(() => resolve(note))),
      },
      { tls: files("disk-registry") },
    );
    const client = bench.client({ tls: files("operator") });
    const slow = { text: "slow", count: 2 };
    const first = client.get(slow);
    await eventually(async () => expect(begun).to.have.length(1));
    for (const name of ["operator", "disk-registry"] as const) {
      await issue(name, { role: name, name: "" });
      await takenUp(name);
      expect(await client.get(NOTE)).to.deep.equal(NOTE);
    }
    begun[0]?.();
    expect(await first).to.deep.equal(slow);
    // Creates a connection whose server has seen the new certificate.
    await issue("operator", { role: "operator", name: "" });
    await takenUp("operator");
    const second = rejection(client.get(slow), UnavailableError, "is revoked");
    await eventually(async () => expect(begun).to.have.length(2));
    appendFileSync(revokedFile, `${serialOf("disk-registry")}\n`);
    await takenUp("operator");
    expect((await second).outcome).to.equal("unknown");
    begun[1]?.();
  });

  it("of a revoked caller: its connection is closed and new ones are refused", async () => {
    await bench.serve({ list: twice }, { tls: files("disk-registry") });
    const client = bench.client({ tls: bench.files("operator") });
    const list = client.list(NOTE)[Symbol.asyncIterator]();
    await list.next();
    appendFileSync(revokedFile, `${serialOf("operator")}\n`);
    await takenUp("disk-registry");
    await rejection(() => list.next(), UnavailableError);
    await rejection(() => client.get(NOTE, { deadlineMs: 2_000 }));
    expect(bench.refused[0]?.reason).to.equal(
      `the certificate of operator with the serial number ${serialOf("operator")} is revoked`,
    );
  });

  it("of a revoked server: calls under way fail and further ones are refused", async () => {
    await bench.serve({ list: twice }, { tls: bench.files("disk-registry") });
    const client = bench.client({ tls: files("operator") });
    const list = client.list(NOTE)[Symbol.asyncIterator]();
    await list.next();
    appendFileSync(revokedFile, `${serialOf("disk-registry").toLowerCase()}\n`);
    await takenUp("operator");
    const ended = await rejection(() => list.next(), UnavailableError);
    expect(ended.message).to.contain(`serial number ${serialOf("disk-registry")} is revoked`);
    const refused = await rejection(() => client.get(NOTE), UnavailableError);
    expect(refused.message).to.contain("is revoked");
    // With a certificate that is not revoked, calls succeed again.
    await issue("disk-registry", { role: "disk-registry", name: "" });
    await takenUp("disk-registry");
    await eventually(async () => expect(await client.get(NOTE)).to.deep.equal(NOTE));
  });

  it("of a caller that ended: calls under way are completed and further ones are refused", async () => {
    const another = deferred();
    let validMs = 2_000;
    await bench.serve({ list: (note) => twice(note, another.promise) }, { tls: files("disk-registry") });
    // A busy machine may use up a short life before the first call.
    const { client, list } = await eventually(async () => {
      validMs *= 2;
      await issue("operator", { role: "operator", name: "" }, authority, validMs / DAY_MS);
      const client = bench.client({ tls: bench.files("operator") });
      const list = client.list(NOTE)[Symbol.asyncIterator]();
      expect((await list.next()).value).to.deep.equal(NOTE);
      return { client, list };
    });
    const refused = await eventually(() => rejection(client.get(NOTE), UnauthenticatedError));
    expect(refused.message).to.match(/^the certificate of operator ended at 20\S+Z by this server's clock: renew it$/);
    another.resolve();
    expect((await list.next()).value).to.deep.equal(NOTE);
    expect((await list.next()).done).to.equal(true);
  });

  it("of a replaced authority: both are trusted at first, then only the new one", async () => {
    mkdirSync(join(bench.folder, "old"), { recursive: true });
    const old = bench.files("operator", join(bench.folder, "old"));
    for (const file of ["caFile", "certFile", "keyFile"] as const)
      writeFileSync(old[file], readFileSync(bench.files("operator")[file]));
    const server = await bench.serve({}, { tls: files("disk-registry") });
    const client = bench.client({ tls: files("operator") });
    const next = await createAuthority({ commonName: "two", validDays: 1 });
    const trust = async (...pems: string[]) => {
      writeFileSync(files("operator").caFile, pems.join(""));
      await Promise.all([takenUp("operator"), takenUp("disk-registry")]);
      expect(await client.get(NOTE)).to.deep.equal(NOTE);
    };
    await trust(authority.certPem, next.certPem);
    for (const name of ["operator", "disk-registry"] as const) {
      await issue(name, { role: name, name: "" }, next);
      await takenUp(name);
      expect(await client.get(NOTE)).to.deep.equal(NOTE);
    }
    await trust(next.certPem);
    await server.drain();
    await bench.serve({}, { tls: files("disk-registry"), port: bench.port });
    expect(await client.get(NOTE)).to.deep.equal(NOTE);
    const stale = bench.client({ tls: old });
    await rejection(() => stale.get(NOTE), UnavailableError);
  });
});

/** Yields the note, and yields it again once `again` resolves. */
async function* twice(note: Note, again: unknown): AsyncGenerator<Note> {
  yield note;
  await (again instanceof Promise ? again : new Promise(() => {}));
  yield note;
}
