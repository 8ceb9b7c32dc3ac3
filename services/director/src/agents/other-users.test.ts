import { X509Certificate } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Identity, type Logger, silentLogger } from "@diskmesh/domain";
import { createAuthority, identifiedKey, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { expect } from "chai";
import { OtherUsers } from "./other-users.js";

describe("those whom NATS lets in by a folder of certificates", () => {
  let folder: string;
  let authority: KeyPair;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "dm-other-users-"));
    authority = await createAuthority({ commonName: "any", validDays: 1 });
  });
  after(() => rmSync(folder, { recursive: true }));

  async function write(name: string, identity: Identity): Promise<X509Certificate> {
    const names = { commonName: name, dnsNames: [], ipAddresses: [] };
    const made = await issueCertificate(authority, { identity, ...names, validDays: 1, usages: ["client"] });
    writeFileSync(join(folder, `${name}.next`), made.certPem);
    renameSync(join(folder, `${name}.next`), join(folder, `${name}.pem`));
    writeFileSync(join(folder, `${name}-key.pem`), made.keyPem);
    return new X509Certificate(made.certPem);
  }

  it("a host that comes, is renewed, is revoked and goes; nobody who has nothing to say there; no garbage", async () => {
    const told: string[] = [];
    const log = { ...silentLogger, warn: (_fields: object, text: string) => told.push(text) } as Logger;
    const revoked = new Set<string>();
    const isRevoked = (serialNumber: string) => revoked.has(serialNumber);
    const users = new OtherUsers({ certFiles: [], certFolder: folder, tls: { isRevoked }, log });
    const names = async () => (await users.all()).map(({ identity, pins }) => `${identity.name} ${pins.join()}`);
    expect(await names()).to.deep.equal([]);
    writeFileSync(join(folder, "ca.pem"), authority.certPem);
    await write("operator", { role: "operator", name: "alice" });
    const pinOf = (certificate: X509Certificate) => identifiedKey(certificate).pin;
    const first = await write("host-1", { role: "disk-agent", name: "host-1" });
    expect(await names()).to.deep.equal([`host-1 ${pinOf(first)}`]);
    const second = await write("host-1", { role: "disk-agent", name: "host-1" });
    expect(await names()).to.deep.equal([`host-1 ${pinOf(second)}`]);
    revoked.add(second.serialNumber);
    expect(await names()).to.deep.equal([]);
    revoked.clear();
    writeFileSync(join(folder, "odd.pem"), "?");
    for (let looks = 0; looks < 2; looks++) expect(await names()).to.have.length(1);
    expect(told).to.have.length(1);
    rmSync(join(folder, "host-1.pem"));
    expect(await names()).to.deep.equal([]);
  });
});
