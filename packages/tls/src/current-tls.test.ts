import { X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InvalidArgumentError, type Logger, silentLogger } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { expect } from "chai";
import { CurrentTls } from "./current-tls.js";
import { WatchedFiles } from "./watched-files.js";

describe("CurrentTls", () => {
  let folder: string;
  let authority: KeyPair;
  const opened: CurrentTls[] = [];
  const lines: string[] = [];
  const note = (_fields: object, text: string) => lines.push(text);
  const ended: string[] = [];
  const info = (fields: object) => {
    const { alertEnded, alertOf } = fields as { alertEnded?: string; alertOf?: string };
    ended.push(`${alertEnded} ${alertOf}`);
  };
  const log = { ...silentLogger, info, warn: note, error: note } as Logger;
  before(async () => {
    authority = await createAuthority({ commonName: "any", validDays: 1 });
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "dm-tls-"));
    lines.length = 0;
    ended.length = 0;
  });
  afterEach(() => {
    for (const tls of opened.splice(0)) tls.close();
    rmSync(folder, { recursive: true });
  });

  const issue = () =>
    issueCertificate(authority, {
      identity: { role: "director", name: "" },
      commonName: "director",
      dnsNames: [],
      ipAddresses: [],
      validDays: 1,
      usages: ["server"],
    });
  const write = (into: string, { certPem, keyPem }: KeyPair) => {
    writeFileSync(join(into, "ca.pem"), authority.certPem);
    writeFileSync(join(into, "tls.crt"), certPem);
    writeFileSync(join(into, "tls.key"), keyPem);
  };
  const open = (within = folder, section = "tls") => {
    const [caFile, certFile, keyFile] = ["ca.pem", "tls.crt", "tls.key"].map((name) => join(within, name));
    const files = { caFile: caFile ?? "", certFile: certFile ?? "", keyFile: keyFile ?? "" };
    const tls = CurrentTls.open({ ...files, revokedFile: join(within, "revoked") }, log, section);
    opened.push(tls);
    return tls;
  };
  const until = async (isSo: () => boolean) => {
    for (let tries = 0; !isSo() && tries < 600; tries++) await delay(50);
    expect(isSo()).to.equal(true);
  };

  it("keeps the former pair while key and certificate do not match, and reports the files", async () => {
    const [first, second] = [await issue(), await issue()];
    write(folder, first);
    writeFileSync(join(folder, "revoked"), "");
    const tls = open();
    let changes = 0;
    tls.onChange(() => changes++);
    writeFileSync(join(folder, "tls.key"), second.keyPem);
    WatchedFiles.readAll();
    await until(() => lines.length > 0);
    expect(lines[0]).to.match(
      /^TLS file change rejected, previous files stay in use: tls\.keyFile .*tls\.key is not the key /,
    );
    expect(String(tls.material.key)).to.equal(first.keyPem);
    writeFileSync(join(folder, "tls.crt"), second.certPem);
    await until(() => changes === 1);
    expect(tls.material).to.include({ key: tls.material.key });
    expect(String(tls.material.cert) + tls.material.key).to.equal(second.certPem + second.keyPem);
    expect(lines.at(-1)).to.match(/^TLS files reloaded: the certificate in tls\.certFile \S+$/);
    expect(lines).to.have.length(2);
    expect(ended).to.deep.equal([`tls_files ${join(folder, "ca.pem")}`]);
  });

  it("refuses unusable files, naming the config key and the path", async () => {
    const [made, other] = [await issue(), await issue()];
    const torn: readonly [file: string, text: string, said: string][] = [
      ["tls.crt", made.certPem.slice(0, 100), "metrics.tls.certFile FILE has no readable certificate in PEM"],
      ["tls.crt", "", "metrics.tls.certFile FILE has no readable certificate in PEM"],
      ["tls.key", made.keyPem.slice(0, 100), "metrics.tls.keyFile FILE has no readable private key in PEM"],
      ["tls.key", other.keyPem, "metrics.tls.keyFile FILE is not the key of the certificate"],
      ["ca.pem", authority.certPem.slice(0, -40), "metrics.tls.caFile FILE has an incomplete PEM certificate"],
    ];
    for (const [name, text, said] of torn) {
      write(folder, made);
      writeFileSync(join(folder, "revoked"), "");
      writeFileSync(join(folder, name), text);
      expect(() => open(folder, "metrics.tls"), name).to.throw(
        InvalidArgumentError,
        said.replace("FILE", join(folder, name)),
      );
    }
    expect(lines).to.deep.equal([]);
  });

  it("follows links to other folders, the way Kubernetes replaces mounted files", async () => {
    const version = async (name: string) => {
      const made = await issue();
      mkdirSync(join(folder, name));
      write(join(folder, name), made);
      writeFileSync(join(folder, name, "revoked"), "");
      symlinkSync(name, join(folder, "..next"));
      renameSync(join(folder, "..next"), join(folder, "..data"));
      return made.certPem;
    };
    const first = await version("..1");
    for (const name of ["ca.pem", "tls.crt", "tls.key", "revoked"]) symlinkSync(`..data/${name}`, join(folder, name));
    const tls = open();
    expect(String(tls.material.cert)).to.equal(first);
    const second = await version("..2");
    rmSync(join(folder, "..1"), { recursive: true });
    await until(() => String(tls.material.cert) === second);
    expect(lines).to.have.length(1);
  });

  it("is shared by all openers of the same files until the last one closes", async () => {
    const made = await issue();
    write(folder, made);
    writeFileSync(join(folder, "revoked"), "");
    const { serialNumber } = new X509Certificate(made.certPem);
    const [one, other] = [open(), open()];
    expect(other.material).to.equal(one.material);
    const heard: string[] = [];
    one.onChange(() => heard.push("one"));
    other.onChange(() => heard.push("other"));
    one.close();
    writeFileSync(join(folder, "revoked"), `${serialNumber}\n`);
    WatchedFiles.readAll();
    await until(() => other.isRevoked(serialNumber.toLowerCase()));
    expect(heard).to.deep.equal(["other"]);
    expect(other.isTrusted([new X509Certificate(made.certPem)])).to.equal(false);
  });
});
