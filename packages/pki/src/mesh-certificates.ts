import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { type Identity, InvalidArgumentError, identityUri, messageOf, NotFoundError, quoted } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "./authority.js";
import { certificateFiles, NATS_COMMON_NAME } from "./development.js";
import type { Holder } from "./holders.js";
import { createHostAuthority } from "./host-authority.js";
import { type IdentifiedKey, identifiedKey, onlyUriOf } from "./identified-key.js";

const AUTHORITY_DAYS = 3650;
const AUTHORITY_CURVE = "prime256v1";
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;
/** Fraction of its lifetime that a certificate has left when it becomes due for renewal. */
const DUE_PART = 1 / 3;

export interface MakeOptions {
  readonly validDays: number;
  /** Gives renewed certificates new keys. By default a renewal keeps the key, and with it every pin of that key. */
  readonly newKeys: boolean;
  /** Renews all certificates, not only those that are due. */
  readonly all: boolean;
}

export interface HeldCertificate {
  readonly name: string;
  readonly identity: Identity;
  readonly certificate: X509Certificate;
  /** True when the current signing authority signed the certificate. */
  readonly isCurrent: boolean;
}

/** Identity of a NATS server, and the keys that it may use. */
export interface HeldKeys {
  readonly identity: Identity;
  /** SHA-256 of the public keys, in hex. */
  readonly pins: readonly string[];
}

interface Authority extends KeyPair {
  readonly certificate: X509Certificate;
}

/**
 * The certificate authority of a mesh and the certificates that it issued, in a folder: `ca.pem`, all trusted
 * authorities; `ca-key.pem`, the key of the signing one; `NAME.pem` and `NAME-key.pem` of each holder; `former/`,
 * replaced certificates; `revoked`, serial numbers. One process at a time may change the folder.
 */
export class MeshCertificates {
  private constructor(
    private readonly folder: string,
    private readonly authority: Authority,
    private authorities: readonly X509Certificate[],
  ) {}

  /**
   * Opens the folder; with `makes`, creates an authority when there is none. Throws InvalidArgumentError for a damaged
   * folder.
   */
  static async open(folder: string, { makes }: { readonly makes: boolean }): Promise<MeshCertificates> {
    const { caFile, keyFile } = certificateFiles(folder, "ca");
    const [caPem, keyPem] = [await readIfAny(caFile), await readIfAny(keyFile)];
    if (caPem === undefined && keyPem === undefined) {
      if (!makes) throw new NotFoundError(`${quoted(folder)} has no authority: create it with \`diskmesh pki make\``);
      await mkdir(join(folder, "former"), { recursive: true, mode: 0o700 });
      const made = await newAuthority();
      await replaceFile(keyFile, made.keyPem);
      await replaceFile(caFile, made.certPem, { mode: 0o644 });
      return new MeshCertificates(folder, made, [made.certificate]);
    }
    if (caPem === undefined || keyPem === undefined)
      throw new InvalidArgumentError(
        `${caPem === undefined ? caFile : keyFile} is missing, but ${caPem === undefined ? keyFile : caFile} exists: put the missing file back`,
      );
    const authorities = certificatesOf(caPem, caFile);
    const certificate = authorities.find((each) => isKeyOf(each, keyPem));
    if (certificate === undefined)
      throw new InvalidArgumentError(
        `${keyFile} does not belong to any authority in ${caFile}: put the right key back`,
      );
    const { asymmetricKeyDetails: details } = createPrivateKey(keyPem);
    if (details?.namedCurve !== AUTHORITY_CURVE)
      throw new InvalidArgumentError(
        `${keyFile} is not an ECDSA key on P-256, the only supported kind: use a P-256 authority`,
      );
    return new MeshCertificates(folder, { certPem: certificate.toString(), keyPem, certificate }, authorities);
  }

  /** Issues missing certificates and renews those that are due. Returns the action taken for each holder. */
  async make(
    holders: readonly Holder[],
    options: MakeOptions,
  ): Promise<ReadonlyMap<string, "made" | "renewed" | "kept">> {
    // The empty file exists from the start so that configs can name it before the first revocation.
    if ((await readIfAny(this.#file("revoked"))) === undefined)
      await replaceFile(this.#file("revoked"), "", { mode: 0o644 });
    const done = new Map<string, "made" | "renewed" | "kept">();
    for (const holder of holders) {
      const held = await this.#pairOf(holder.name);
      if (held !== undefined && !options.all && this.#isGood(held.certificate, holder)) done.set(holder.name, "kept");
      else {
        await this.#issue(holder, held, options);
        done.set(holder.name, held === undefined ? "made" : "renewed");
      }
    }
    return done;
  }

  async list(): Promise<readonly HeldCertificate[]> {
    const names = (await readdir(this.folder))
      .filter((file) => file.endsWith(".pem") && !file.endsWith("-key.pem") && file !== "ca.pem")
      .map((file) => file.slice(0, -".pem".length));
    const held: HeldCertificate[] = [];
    for (const name of names.sort()) {
      const [certificate] = certificatesOf(await readFile(this.#file(`${name}.pem`), "utf8"), `${name}.pem`);
      if (certificate === undefined) continue;
      const { identity } = identified(certificate, this.#file(`${name}.pem`));
      held.push({ name, identity, certificate, isCurrent: this.#hasSigned(certificate) });
    }
    return held;
  }

  /** Revokes every unexpired certificate that the holder ever had; returns the serial numbers that were added. */
  async revoke(name: string, nowMs: number): Promise<readonly string[]> {
    const { certFile, keyFile } = certificateFiles(this.folder, checkedName(name));
    const held = await readIfAny(certFile);
    const certificates = [
      ...(held === undefined ? [] : certificatesOf(held, certFile).slice(0, 1)),
      ...(await this.#former()).filter((former) => former.name === name).map(({ certificate }) => certificate),
    ].filter(({ validTo }) => Date.parse(validTo) > nowMs);
    if (certificates.length === 0) throw new NotFoundError(`${quoted(name)} has no valid certificate here`);
    const revoked = await this.#revoked();
    const serials = certificates.map(({ serialNumber }) => serialNumber).filter((serial) => !revoked.has(serial));
    const lines = serials.map((serial) => `${serial} # ${name}, ${new Date(nowMs).toISOString()}\n`).join("");
    await replaceFile(this.#file("revoked"), ((await readIfAny(this.#file("revoked"))) ?? "") + lines, { mode: 0o644 });
    if (held !== undefined) await this.#putAside(name, held);
    // The certificate is deleted last: while it exists, a repeated call continues an interrupted revocation.
    await rm(keyFile, { force: true });
    await rm(certFile, { force: true });
    return serials;
  }

  /**
   * Creates a second authority, which signs every certificate once the folder is opened again. Both authorities are
   * trusted. The next `make` renews every certificate with the second one.
   */
  async replaceAuthority(): Promise<void> {
    if (this.authorities.length > 1)
      throw new InvalidArgumentError("two authorities are already trusted: forget the former authority first");
    const made = await newAuthority();
    const { caFile, keyFile } = certificateFiles(this.folder, "ca");
    // After a crash between the two writes the former key still matches its certificate and signs.
    await replaceFile(caFile, made.certPem + pemOf(this.authority.certificate), { mode: 0o644 });
    await replaceFile(keyFile, made.keyPem);
  }

  /**
   * Makes an authority for joined hosts, in place of a former one. Its certificates count until they end. Throws
   * InvalidStateError when the mesh's authority may sign none.
   */
  async makeHostAuthority(): Promise<void> {
    const made = await createHostAuthority(this.authority);
    await mkdir(this.#file("hosts"), { recursive: true, mode: 0o700 });
    await replaceFile(this.#file("hosts/hosts-ca-key.pem"), made.keyPem);
    await replaceFile(this.#file("hosts/hosts-ca.pem"), made.certPem, { mode: 0o644 });
  }

  /**
   * Stops trusting all authorities but the signing one. Throws InvalidArgumentError while a holder's certificate is
   * signed by another authority.
   */
  async forgetFormerAuthority(): Promise<void> {
    const stale = (await this.list()).filter(({ isCurrent }) => !isCurrent).map(({ name }) => name);
    if (stale.length > 0)
      throw new InvalidArgumentError(
        `certificates of the former authority are still in use (${stale.slice(0, 10).join(", ")}): renew them with \`diskmesh pki make\`, and copy them to their machines`,
      );
    this.authorities = [this.authority.certificate];
    await replaceFile(certificateFiles(this.folder, "ca").caFile, pemOf(this.authority.certificate), { mode: 0o644 });
  }

  get authorityPems(): readonly string[] {
    return this.authorities.map(pemOf);
  }

  /** Returns the NATS servers of a cluster with the pins of all their valid keys, replaced certificates included. */
  async natsServers(nowMs: number): Promise<readonly HeldKeys[]> {
    const revoked = await this.#revoked();
    const users = new Map<string, { identity: Identity; pins: Set<string> }>();
    for (const { name, certificate } of [...(await this.list()), ...(await this.#former())]) {
      const { identity, pin } = identified(certificate, `a certificate of ${name}`);
      if (identity.role !== "nats" || revoked.has(certificate.serialNumber) || Date.parse(certificate.validTo) <= nowMs)
        continue;
      const user = users.get(identityUri(identity)) ?? { identity, pins: new Set() };
      users.set(identityUri(identity), user);
      user.pins.add(pin);
    }
    return [...users.values()].map(({ identity, pins }) => ({ identity, pins: [...pins] }));
  }

  #file(name: string): string {
    return join(this.folder, name);
  }

  async #issue(holder: Holder, held: HeldPair | undefined, { validDays, newKeys }: MakeOptions): Promise<void> {
    const { name, identity, dnsNames, ipAddresses } = holder;
    const { certFile, keyFile } = certificateFiles(this.folder, name);
    const isNats = identity.role === "nats";
    const leftDays = (Date.parse(this.authority.certificate.validTo) - Date.now()) / 86_400_000;
    const made = await issueCertificate(this.authority, {
      identity,
      commonName: isNats ? NATS_COMMON_NAME : name,
      dnsNames: isNats ? [...dnsNames, NATS_COMMON_NAME] : dnsNames,
      ipAddresses,
      validDays: Math.min(validDays, leftDays),
      usages: /^operator|^csi$/.test(identity.role) ? ["client"] : ["server", "client"],
      ...(held !== undefined && !newKeys && { keyPem: held.keyPem }),
    });
    if (held !== undefined) await this.#putAside(name, held.certPem);
    await replaceFile(keyFile, made.keyPem);
    await replaceFile(certFile, made.certPem, { mode: 0o644 });
  }

  async #putAside(name: string, certPem: string): Promise<void> {
    const { serialNumber } = new X509Certificate(certPem);
    await mkdir(this.#file("former"), { recursive: true, mode: 0o700 });
    await replaceFile(this.#file(`former/${name}.${serialNumber}.pem`), certPem, { mode: 0o644 });
  }

  async #pairOf(name: string): Promise<HeldPair | undefined> {
    const { certFile, keyFile } = certificateFiles(this.folder, name);
    const [certPem, keyPem] = [await readIfAny(certFile), await readIfAny(keyFile)];
    if (certPem === undefined || keyPem === undefined) return undefined;
    const [certificate] = certificatesOf(certPem, certFile);
    // A crash between the two writes, or a manual change, leaves a pair that does not match; both files are then made
    // anew.
    return certificate !== undefined && isKeyOf(certificate, keyPem) ? { certPem, keyPem, certificate } : undefined;
  }

  #isGood(certificate: X509Certificate, { identity, dnsNames, ipAddresses }: Holder): boolean {
    const [fromMs, toMs] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
    const isDue = toMs - Date.now() < (toMs - fromMs) * DUE_PART;
    const places = [
      ...dnsNames.map((name) => certificate.checkHost(name, { wildcards: false }) ?? certificate.checkHost(name)),
      ...ipAddresses.map((address) => certificate.checkIP(address)),
    ];
    if (isDue || places.includes(undefined) || onlyUriOf(certificate) !== identityUri(identity)) return false;
    return this.#hasSigned(certificate);
  }

  #hasSigned(certificate: X509Certificate): boolean {
    return certificate.verify(this.authority.certificate.publicKey);
  }

  async #former(): Promise<readonly { readonly name: string; readonly certificate: X509Certificate }[]> {
    const files = await readdir(this.#file("former")).catch(() => []);
    const pems = files.filter((file) => file.endsWith(".pem"));
    return Promise.all(
      pems.map(async (file) => {
        const certificate = new X509Certificate(await readFile(this.#file(`former/${file}`)));
        return { name: file.split(".")[0] ?? "", certificate };
      }),
    );
  }

  async #revoked(): Promise<ReadonlySet<string>> {
    const text = (await readIfAny(this.#file("revoked"))) ?? "";
    return new Set(text.split("\n").map((line) => line.split(" ")[0] ?? ""));
  }
}

interface HeldPair extends KeyPair {
  readonly certificate: X509Certificate;
}

async function newAuthority(): Promise<Authority> {
  // The time makes the name unique: verifiers look up issuers by name, so two authorities must not share one.
  const commonName = `diskmesh CA ${new Date().toISOString().slice(0, 19)}`;
  const made = await createAuthority({ commonName, validDays: AUTHORITY_DAYS, pathLength: 1 });
  return { ...made, certificate: new X509Certificate(made.certPem) };
}

function certificatesOf(pem: string, file: string): X509Certificate[] {
  try {
    const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
    return found.map((one) => new X509Certificate(one));
  } catch (error) {
    throw new InvalidArgumentError(`${file} has no readable certificate: ${messageOf(error)}`);
  }
}

function identified(certificate: X509Certificate, where: string): IdentifiedKey {
  try {
    return identifiedKey(certificate);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    throw new InvalidArgumentError(
      `${where} is not a certificate of a mesh; remove it from the folder: ${error.message}`,
      {
        cause: error,
      },
    );
  }
}

function isKeyOf(certificate: X509Certificate, keyPem: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(keyPem));
  } catch {
    return false;
  }
}

const pemOf = (certificate: X509Certificate): string => `${certificate.toString().trimEnd()}\n`;

function checkedName(name: string): string {
  if (NAME.test(name) && name !== "ca") return name;
  throw new InvalidArgumentError(`${quoted(name)} has no certificate: \`diskmesh pki list\` shows the names`);
}

async function readIfAny(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new InvalidArgumentError(`cannot read ${quoted(file)}: ${messageOf(error)}`);
  }
}
