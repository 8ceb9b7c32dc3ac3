import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import { rejection, skipWithout } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { parseHolders } from "./holders.js";
import { MeshCertificates } from "./mesh-certificates.js";

const LIST = `
# who            where
director         10.0.0.1 director.example
nats             nats-1
disk-agent/host-1
operator-reader/bob   # looks
`;
const NAMES = ["director", "nats", "disk-agent-host-1", "operator-reader-bob"];

describe("certificates of a mesh", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "dm-mesh-pki-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const read = (file: string) => readFileSync(join(folder, file), "utf8");
  const certificate = (name: string) => new X509Certificate(read(`${name}.pem`));
  const open = () => MeshCertificates.open(folder, { makes: true });
  const make = async (options: { all?: boolean; newKeys?: boolean; validDays?: number; list?: string } = {}) => {
    const { list = LIST, ...rest } = options;
    const done = await (await open()).make(parseHolders(list, "mesh.list"), {
      validDays: 30,
      all: false,
      newKeys: false,
      ...rest,
    });
    return [...done.values()];
  };
  const all = (what: string) => NAMES.map(() => what);

  it("are issued once per listed holder, and openssl accepts them for their purposes", async function () {
    skipWithout(this, "openssl");
    expect(await make()).to.deep.equal(all("made"));
    expect(await make()).to.deep.equal(all("kept"));
    for (const name of [...NAMES, "ca"]) expect(statSync(join(folder, `${name}-key.pem`)).mode & 0o777).to.equal(0o600);
    const verify = (name: string, purpose: string) =>
      execFileSync("openssl", ["verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", `${name}.pem`], {
        cwd: folder,
        encoding: "utf8",
        stdio: "pipe",
      });
    for (const name of NAMES) expect(verify(name, "sslclient")).to.contain("OK");
    for (const name of NAMES.slice(0, 3)) expect(verify(name, "sslserver")).to.contain("OK");
    expect(() => verify("operator-reader-bob", "sslserver")).to.throw("unsuitable certificate purpose");
    expect(certificate("operator-reader-bob").subjectAltName).to.equal("URI:spiffe://diskmesh/operator-reader/bob");
    expect(certificate("nats").subject).to.equal("CN=default.nats.bosh-internal");
    expect(certificate("director").checkIP("10.0.0.1")).to.equal("10.0.0.1");
  });

  it("are renewed when due or when the holder's address changes, with the same key unless new keys are requested", async () => {
    await make();
    const former = NAMES.map((name) => [read(`${name}.pem`), read(`${name}-key.pem`)]);
    expect(await make({ list: LIST.replace("10.0.0.1", "10.0.0.2") })).to.deep.equal([
      "renewed",
      "kept",
      "kept",
      "kept",
    ]);
    expect(certificate("director").checkIP("10.0.0.2")).to.equal("10.0.0.2");
    expect(await make({ all: true })).to.deep.equal(all("renewed"));
    for (const [index, name] of NAMES.entries()) {
      expect(read(`${name}.pem`)).not.to.equal(former[index]?.[0]);
      expect(read(`${name}-key.pem`)).to.equal(former[index]?.[1]);
    }
    await make({ all: true, newKeys: true });
    for (const [index, name] of NAMES.entries()) expect(read(`${name}-key.pem`)).not.to.equal(former[index]?.[1]);
    // During a renewal, the NATS servers of a cluster accept each other's old and new certificates.
    const servers = await (await open()).natsServers(Date.now());
    expect(servers.map(({ identity: { role }, pins }) => [role, pins.length])).to.deep.equal([["nats", 2]]);
    writeFileSync(join(folder, "director-key.pem"), read("nats-key.pem"));
    expect(await make()).to.deep.equal(["made", "kept", "kept", "kept"]);
  });

  it("of one holder are all revoked by serial number, and no other holder's are", async () => {
    await make();
    const first = certificate("disk-agent-host-1").serialNumber;
    await make({ all: true });
    const second = certificate("disk-agent-host-1").serialNumber;
    const revoked = await (await open()).revoke("disk-agent-host-1", Date.now());
    expect(revoked).to.have.members([first, second]);
    for (const serial of [first, second])
      expect(read("revoked")).to.match(new RegExp(`^${serial} # disk-agent-host-1, `, "m"));
    expect(await make()).to.deep.equal(["kept", "kept", "made", "kept"]);
    for (const name of ["nobody", "../x", "ca"]) await rejection(async () => (await open()).revoke(name, Date.now()));
  });

  it("are signed by a new authority once the authority is replaced; the former one is forgotten only after that", async () => {
    await make();
    const former = read("ca.pem");
    await (await open()).replaceAuthority();
    expect((await open()).authorityPems).to.have.length(2);
    expect(read("ca.pem")).to.contain(former);
    const early = await rejection(async () => (await open()).forgetFormerAuthority(), InvalidArgumentError);
    expect(early.message).to.contain("still in use (director, disk-agent-host-1, nats, operator-reader-bob)");
    await rejection(async () => (await open()).replaceAuthority(), InvalidArgumentError);
    expect(await make()).to.deep.equal(all("renewed"));
    await (await open()).forgetFormerAuthority();
    expect(read("ca.pem")).not.to.contain(former);
    for (const name of NAMES) expect(certificate(name).verify(certificate("ca").publicKey), name).to.equal(true);
  });

  it("require both files of the authority, and a key that matches", async () => {
    await rejection(() => MeshCertificates.open(folder, { makes: false }), NotFoundError);
    await make();
    const key = read("ca-key.pem");
    writeFileSync(join(folder, "ca-key.pem"), read("nats-key.pem"));
    expect((await rejection(open, InvalidArgumentError)).message).to.contain("does not belong to any authority");
    rmSync(join(folder, "ca-key.pem"));
    expect((await rejection(open, InvalidArgumentError)).message).to.contain("ca-key.pem is missing");
    writeFileSync(join(folder, "ca-key.pem"), key);
    expect(await make()).to.deep.equal(all("kept"));
  });

  it("require an authority with a P-256 key and a folder without unrelated certificates; the error names the file", async function () {
    skipWithout(this, "openssl");
    const made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-keyout", "ca-key.pem"];
    execFileSync("openssl", [...made, "-out", "ca.pem"], { cwd: folder, stdio: "pipe" });
    expect((await rejection(open, InvalidArgumentError)).message).to.contain("ca-key.pem is not an ECDSA key on P-256");
    const other = read("ca.pem");
    for (const file of ["ca.pem", "ca-key.pem"]) rmSync(join(folder, file));
    await make();
    writeFileSync(join(folder, "other.pem"), other);
    const { message } = await rejection(async () => (await open()).list(), InvalidArgumentError);
    expect(message).to.contain(`${join(folder, "other.pem")} is not a certificate of a mesh`);
  });

  const WRONG: readonly (readonly [text: string, said: string])[] = [
    ["king", 'line 1: "king" is not a holder'],
    ["\nvm-agent/a", 'line 2: "vm-agent/a" is not a holder'],
    ["disk-agent", "disk-agent needs a name"],
    ["operator-hosts", "operator-hosts needs a name"],
    ["csi/a.b", "the name"],
    ["disk-agent/../x", "is not a holder"],
    ["disk-agent/..", "the name"],
    ["director 10.0.0.300", '"10.0.0.300" is neither'],
    ["operator/alice\noperator/alice-key", '"operator/alice-key" ends in -key'],
    ["director 10.0.0.256/8", '"10.0.0.256/8" is neither'],
    ["operator/reader-bob\noperator-reader/bob", "has the same files as operator reader-bob"],
  ];
  it("takes a scope, or none, for the roles that can have one", () => {
    const holders = parseHolders("csi\ncsi/web\noperator-disks\noperator-disks/a", "mesh.list");
    expect(holders.map(({ name, identity }) => [name, identity.role, identity.name])).to.deep.equal([
      ["csi", "csi", ""],
      ["csi-web", "csi", "web"],
      ["operator-disks", "operator-disks", ""],
      ["operator-disks-a", "operator-disks", "a"],
    ]);
  });

  for (const [text, said] of WRONG)
    it(`rejects the holder list ${JSON.stringify(text)}: ${said}`, () => {
      expect(() => parseHolders(text, "mesh.list")).to.throw(InvalidArgumentError, said);
    });
});
