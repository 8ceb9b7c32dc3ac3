import { X509Certificate } from "node:crypto";
import type { Logger } from "@diskmesh/domain";
import { normalSerial, parseRevoked } from "./revoked.js";
import { takeUp } from "./take-up.js";
import { certificatesIn, readTlsFiles, type TlsFiles, type TlsMaterial } from "./tls-files.js";
import { type Found, WatchedFiles } from "./watched-files.js";

/** Of each set of files, one for the process. */
const readers = new Map<string, TlsReader>();

/**
 * What the TLS files of a process say now. They are looked at each second; what has changed and is whole is in use from
 * then on, anything else leaves the former in use and is told to the log. All who open the same files share the looks.
 */
export class CurrentTls {
  readonly #reader: TlsReader;
  readonly #forget: (() => void)[] = [];
  #isClosed = false;

  private constructor(reader: TlsReader) {
    this.#reader = reader;
  }

  /**
   * Throws InvalidArgumentError for files that cannot be read or used. The first log that is given for them is told, and
   * hears of them by the first `section` of the config.
   */
  static open(files: TlsFiles, log?: Logger, section = "tls"): CurrentTls {
    const key = JSON.stringify([files.caFile, files.certFile, files.keyFile, files.revokedFile]);
    let reader = readers.get(key);
    if (reader === undefined) {
      reader = new TlsReader(files, section, () => readers.delete(key));
      readers.set(key, reader);
    }
    reader.log ??= log;
    reader.users += 1;
    return new CurrentTls(reader);
  }

  get material(): TlsMaterial {
    return this.#reader.material;
  }

  /** When the certificate ends, in milliseconds since 1970. */
  get endsAtMs(): number {
    return Date.parse(new X509Certificate(this.material.cert).validTo);
  }

  /** By the serial number in hex. */
  isRevoked(serialNumber: string): boolean {
    return this.#reader.revoked.has(normalSerial(serialNumber));
  }

  /** Whether an authority in `caFile` has signed it itself, and it is not revoked. */
  isTrusted(certificate: X509Certificate): boolean {
    if (this.isRevoked(certificate.serialNumber)) return false;
    return certificatesIn(this.material.ca).some((authority) => certificate.verify(authority.publicKey));
  }

  /** Calls back whenever something else is in use from now on. */
  onChange(listener: () => void): void {
    const { listeners } = this.#reader;
    listeners.add(listener);
    this.#forget.push(() => listeners.delete(listener));
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const forget of this.#forget) forget();
    this.#reader.users -= 1;
    if (this.#reader.users === 0) this.#reader.close();
  }
}

class TlsReader {
  readonly listeners = new Set<() => void>();
  users = 0;
  log: Logger | undefined;
  material: TlsMaterial;
  revoked: ReadonlySet<string>;
  readonly #watched: WatchedFiles<keyof TlsMaterial>;

  constructor(
    readonly files: TlsFiles,
    private readonly section: string,
    private readonly onClosed: () => void,
  ) {
    this.material = readTlsFiles(files, section);
    this.revoked = this.#parseRevoked();
    const { caFile, certFile, keyFile, revokedFile } = files;
    this.#watched = new WatchedFiles({
      files: { ca: caFile, cert: certFile, key: keyFile, revoked: revokedFile },
      inUse: () => this.material,
      onOther: (found) => this.#takeUp(found),
    });
  }

  close(): void {
    this.#watched.close();
    this.onClosed();
  }

  #parseRevoked(): ReadonlySet<string> {
    const { revokedFile } = this.files;
    return revokedFile === undefined ? new Set() : parseRevoked(this.material.revoked, revokedFile);
  }

  #takeUp(found: Found<keyof TlsMaterial>): void {
    const { material, changes, problems } = takeUp(this.material, found, this.files, Date.now(), this.section);
    this.#watched.tell(this.log, problems.join("; "));
    if (changes.length === 0) return;
    this.material = material;
    this.revoked = this.#parseRevoked();
    const { serialNumber, validTo } = new X509Certificate(material.cert);
    const endsAt = new Date(validTo).toISOString();
    this.log?.warn({ serialNumber, endsAt }, `${changes.join(" and ")}: changed, and in use from now on`);
    for (const listener of [...this.listeners]) listener();
  }
}
