import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { skipWithout } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { createAuthority, issueCertificate } from "./authority.js";
import { createDevelopmentCertificates } from "./development.js";

const NAMES = ["ca", "cpi-dispatcher", "csi", "director", "disk-agent-host-1", "disk-registry", "nats", "operator"];

describe("createDevelopmentCertificates", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "dm-pki-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const make = (hostIds = ["host-1"]) => createDevelopmentCertificates(folder, { hostIds });
  const read = (file: string) => readFileSync(join(folder, file), "utf8");
  const certificate = (name: string) => new X509Certificate(read(`${name}.pem`));
  const contents = () => Object.fromEntries(readdirSync(folder).map((file) => [file, read(file)]));

  it("makes a certificate and a key for each process, readable by their owner only", async () => {
    await make();
    expect(readdirSync(folder).sort()).to.deep.equal(
      NAMES.flatMap((name) => [`${name}-key.pem`, `${name}.pem`]).sort(),
    );
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    for (const name of NAMES) expect(statSync(join(folder, `${name}-key.pem`)).mode & 0o777, name).to.equal(0o600);
  });

  it("writes the identity as a URI, and the names that NATS clients expect of the server", async () => {
    await make();
    expect(certificate("director").subjectAltName).to.contain("URI:spiffe://diskmesh/director,");
    expect(certificate("disk-agent-host-1").subjectAltName).to.contain("URI:spiffe://diskmesh/disk-agent/host-1,");
    const nats = certificate("nats");
    expect(nats.subject).to.equal("CN=default.nats.bosh-internal");
    expect(nats.checkHost("localhost")).to.equal("localhost");
    expect(nats.checkIP("127.0.0.1")).to.equal("127.0.0.1");
  });

  it("passes openssl's verification for servers and clients", async function () {
    skipWithout(this, "openssl");
    await make();
    for (const purpose of ["sslserver", "sslclient"])
      for (const name of NAMES.slice(1)) {
        const args = ["verify", "-x509_strict", "-purpose", purpose, "-CAfile", join(folder, "ca.pem")];
        const out = execFileSync("openssl", [...args, join(folder, `${name}.pem`)], { encoding: "utf8" });
        expect(out).to.contain(": OK");
      }
  });

  it("keeps valid certificates and adds missing ones", async () => {
    await make();
    const before = contents();
    await make(["host-1", "host-2"]);
    const after = contents();
    expect(after).to.include(before);
    expect(Object.keys(after)).to.include.members(["disk-agent-host-2.pem", "disk-agent-host-2-key.pem"]);
  });

  it("replaces certificates that are damaged, do not match their key, or name another identity", async () => {
    await make();
    const before = contents();
    writeFileSync(join(folder, "director.pem"), read("director.pem").slice(0, 100));
    writeFileSync(join(folder, "operator-key.pem"), read("nats-key.pem"));
    writeFileSync(join(folder, "disk-registry.pem"), read("nats.pem"));
    writeFileSync(join(folder, "disk-registry-key.pem"), read("nats-key.pem"));
    rmSync(join(folder, "cpi-dispatcher-key.pem"));
    await make();
    for (const name of ["director", "operator", "disk-registry", "cpi-dispatcher"]) {
      expect(read(`${name}.pem`), name).not.to.equal(before[`${name}.pem`]);
      expect(certificate(name).subjectAltName).to.contain(`URI:spiffe://diskmesh/${name},`);
    }
    expect(read("nats.pem")).to.equal(before["nats.pem"]);
  });

  it("renews certificates that end within 30 days, and all of them when the authority is renewed", async () => {
    await make();
    const authority = { certPem: read("ca.pem"), keyPem: read("ca-key.pem") };
    for (const [name, validDays] of [
      ["director", 29],
      ["operator", 31],
    ] as const) {
      const pair = await issueCertificate(authority, {
        identity: { role: name, name: "" },
        commonName: name,
        dnsNames: [],
        ipAddresses: [],
        validDays,
        usages: ["server", "client"],
      });
      writeFileSync(join(folder, `${name}.pem`), pair.certPem);
      writeFileSync(join(folder, `${name}-key.pem`), pair.keyPem);
    }
    const before = contents();
    await make();
    expect(read("director.pem")).not.to.equal(before["director.pem"]);
    expect(read("operator.pem")).to.equal(before["operator.pem"]);
    const old = await createAuthority({ commonName: "old", validDays: 29 });
    writeFileSync(join(folder, "ca.pem"), old.certPem);
    writeFileSync(join(folder, "ca-key.pem"), old.keyPem);
    await make();
    const authorityKey = certificate("ca").publicKey;
    for (const name of NAMES) expect(certificate(name).verify(authorityKey), name).to.equal(true);
    expect(read("ca.pem")).not.to.equal(old.certPem);
  });

  it("refuses a host id that could be a path", async () => {
    let message = "";
    await make(["../../etc/passwd"]).catch((error: Error) => {
      message = error.message;
    });
    expect(message).to.contain("host_id");
    expect(readdirSync(folder)).to.deep.equal([]);
  });
});
