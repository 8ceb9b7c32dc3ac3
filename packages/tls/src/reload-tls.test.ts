import { InvalidArgumentError, type Role } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { expect } from "chai";
import { reloadTls } from "./reload-tls.js";
import { normalSerial, parseRevoked } from "./revoked.js";
import type { TlsMaterial } from "./tls-files.js";
import type { Found } from "./watched-files.js";

const HOUR_MS = 3_600_000;
const FILES = { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem", revokedFile: "/revoked" };

describe("reloading TLS files", () => {
  let authority: KeyPair;
  let current: TlsMaterial;
  let renewed: Pick<TlsMaterial, "cert" | "key">;
  const issue = async (role: Role, validDays: number) => {
    const names = { commonName: role, dnsNames: [], ipAddresses: [] };
    const pair = await issueCertificate(authority, {
      identity: { role, name: "" },
      ...names,
      validDays,
      usages: ["client"],
    });
    return { cert: Buffer.from(pair.certPem), key: Buffer.from(pair.keyPem) };
  };

  before(async () => {
    authority = await createAuthority({ commonName: "one", validDays: 2 });
    current = { ca: Buffer.from(authority.certPem), ...(await issue("director", 1)), revoked: Buffer.alloc(0) };
    renewed = await issue("director", 1);
  });

  const take = (found: Partial<Found<keyof TlsMaterial>>, nowMs = Date.now()) =>
    reloadTls(current, { ...current, ...found }, FILES, nowMs);

  it("takes a certificate together with its key, and neither without the other", () => {
    const both = take(renewed);
    expect(both.material).to.deep.equal({ ...current, ...renewed });
    expect(both.changes).to.deep.equal(["the certificate in tls.certFile /cert.pem"]);
    for (const one of [{ cert: renewed.cert }, { key: renewed.key }]) {
      const { material, changes, problems } = take(one);
      expect(material).to.equal(current);
      expect(changes).to.deep.equal([]);
      expect(problems).to.have.length(1);
      expect(problems[0]).to.contain(
        "tls.keyFile /key.pem is not the key of the certificate in tls.certFile /cert.pem",
      );
    }
  });

  it("refuses a certificate that is damaged, missing, expired, not yet valid, or of another holder", async () => {
    const refused = (found: Partial<Found<keyof TlsMaterial>>, text: string, nowMs?: number) => {
      const { material, problems } = take(found, nowMs);
      expect(material).to.equal(current);
      expect(problems.join()).to.contain(text);
    };
    refused({ ...renewed, cert: renewed.cert.subarray(0, 200) }, "tls.certFile /cert.pem has no readable certificate");
    refused({ cert: new InvalidArgumentError("cannot read the TLS file /cert.pem: gone") }, "/cert.pem: gone");
    refused(renewed, "ended at", Date.now() + 25 * HOUR_MS);
    refused(renewed, "is in the future: check the clocks", Date.now() - 2 * HOUR_MS);
    refused(await issue("operator", 1), "names operator, but this process runs as director");
  });

  it("takes several authorities, but none when one of them is damaged", async () => {
    const other = await createAuthority({ commonName: "two", validDays: 2 });
    const two = Buffer.from(authority.certPem + other.certPem);
    expect(take({ ca: two }).material.ca).to.equal(two);
    const torn = take({ ca: two.subarray(0, two.length - 100) });
    expect(torn.material).to.equal(current);
    expect(torn.problems[0]).to.contain("tls.caFile /ca.pem");
    expect(take({ ca: Buffer.alloc(0) }).problems[0]).to.contain("tls.caFile /ca.pem has no readable certificate");
  });

  it("reloads each part on its own: a wrong part does not hold up the others", () => {
    const { material, changes, problems } = take({ ca: Buffer.from("?"), revoked: Buffer.from("0A:1b\n"), ...renewed });
    expect(material).to.deep.equal({ ...current, ...renewed, revoked: Buffer.from("0A:1b\n") });
    expect(changes).to.have.length(2);
    expect(problems).to.have.length(1);
  });

  it("takes serial numbers in any notation, and refuses a line that is none", () => {
    const file = Buffer.from("# lost laptop\n0A:1b:2C  # of alice\r\n\n00ff\n");
    expect([...parseRevoked(file, "/revoked")]).to.deep.equal(["A1B2C", "FF"]);
    expect(normalSerial("0a1b2c")).to.equal("A1B2C");
    expect(() => parseRevoked(Buffer.from("ff\nhost-1\n"), "/revoked")).to.throw(
      "/revoked has no serial number at line 2",
    );
    expect(take({ revoked: Buffer.from("oops") }).material).to.equal(current);
  });
});
