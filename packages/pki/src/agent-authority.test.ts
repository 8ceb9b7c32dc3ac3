import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection, skipWithout } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { issueAgentCertificate, openAgentAuthority } from "./agent-authority.js";
import { createAuthority, issueCertificate } from "./authority.js";
import { identifiedKey } from "./identified-key.js";

const DAY_MS = 24 * 60 * 60 * 1000;

describe("the certificate authority of agents", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "dm-agent-ca-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const files = (name = "ca") => ({ certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}-key.pem`) });
  const open = (makes = true) => openAgentAuthority(files(), { makes });
  const refusal = async (makes = true) => (await rejection(() => open(makes), InvalidArgumentError)).message;

  it("is created once, with a key that only its owner can read", async () => {
    const made = await open();
    expect(await open(false)).to.deep.equal(made);
    expect(statSync(files().keyFile).mode & 0o777).to.equal(0o600);
  });

  it("is not created when an existing authority is required, nor beside one of its two files", async () => {
    expect(await refusal(false)).to.contain("give both files");
    expect(readdirSync(folder)).to.deep.equal([]);
    await open();
    rmSync(files().certFile);
    expect(await refusal()).to.contain(`${files().certFile}`);
    expect(readdirSync(folder)).to.have.lengthOf(1);
  });

  it("is refused when its files are unfit: wrong key, no authority, no PEM, wrong kind of key", async function () {
    skipWithout(this, "openssl");
    const [one, other] = [await createAuthority({ commonName: "a", validDays: 1 }), await open()];
    writeFileSync(files().certFile, one.certPem);
    expect(await refusal()).to.contain("belongs to another certificate");
    const leaf = await issueAgentCertificate(other, "agent-1", 1);
    writeFileSync(files().certFile, leaf.certPem);
    writeFileSync(files().keyFile, leaf.keyPem);
    expect(await refusal()).to.contain("not the certificate of an authority");
    writeFileSync(files().certFile, "nothing");
    expect(await refusal()).to.contain("cannot be read");
    openssl("-newkey rsa:2048 -nodes");
    expect(await refusal()).to.contain("P-256");
  });

  it("may be created by openssl", async function () {
    skipWithout(this, "openssl");
    openssl("-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes");
    const authority = await open(false);
    const { certPem } = await issueAgentCertificate(authority, "agent-1", 1);
    expect(new X509Certificate(certPem).verify(new X509Certificate(authority.certPem).publicKey)).to.equal(true);
  });

  function openssl(how: string): void {
    const args = `req -x509 ${how} -days 30 -subj /CN=agents -keyout ${files().keyFile} -out ${files().certFile}`;
    execFileSync("openssl", args.split(" "), { stdio: "ignore" });
  }

  it("issues certificates for one agent id, as client only, that end no later than the authority", async () => {
    const authority = await open();
    const { certPem, pin, endsAtMs } = await issueAgentCertificate(authority, "agent-1", 90);
    const certificate = new X509Certificate(certPem);
    expect(certificate.subject).to.equal("CN=agent-1.agent.bosh-internal");
    expect(identifiedKey(certificate)).to.deep.equal({ identity: { role: "vm-agent", name: "agent-1" }, pin });
    expect(certificate.keyUsage).to.deep.equal(["1.3.6.1.5.5.7.3.2"]);
    expect(endsAtMs).to.be.within(Date.now() + 89.9 * DAY_MS, Date.now() + 90 * DAY_MS);
    const longer = await issueAgentCertificate(authority, "agent-1", 36_500);
    expect(longer.endsAtMs).to.be.most(authority.endsAtMs);
    expect(longer.pin).not.to.equal(pin);
    expect(readFileSync(files().certFile, "utf8")).to.equal(authority.certPem);
    await rejection(() => issueAgentCertificate(authority, "a.b", 1), InvalidArgumentError);
  });

  it("refuses to identify a certificate that names no identity, or two", async () => {
    const authority = await open();
    const issue = async (name: string) => {
      const options = { commonName: "a", dnsNames: [], ipAddresses: [], validDays: 1, usages: ["client" as const] };
      return new X509Certificate(
        (await issueCertificate(authority, { ...options, identity: { role: "director", name } })).certPem,
      );
    };
    expect(identifiedKey(await issue("")).identity).to.deep.equal({ role: "director", name: "" });
    const odd = await issue("a/b");
    expect(() => identifiedKey(odd)).to.throw(InvalidArgumentError, "exactly one URI must be a diskmesh identity");
  });
});
