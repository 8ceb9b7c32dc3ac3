import { X509Certificate } from "node:crypto";
import type { Logger } from "@diskmesh/domain";
import { reloadTls } from "./reload-tls.js";
import { normalSerial, parseRevoked } from "./revoked.js";
import { certificatesIn, readTlsFiles, type TlsFiles, type TlsMaterial } from "./tls-files.js";
import { type Found, WatchedFiles } from "./watched-files.js";

/** Readers by their set of files: one per set for the whole process. */
const readers = new Map<string, TlsReader>();

/**
 * Current content of the TLS files of a process. The files are read every second; changed and valid content comes into
 * use, invalid content is logged and leaves the former content in use. All openers of the same files share one reader.
 */
export class CurrentTls {
  readonly #reader: TlsReader;
  readonly #forget: (() => void)[] = [];
  #isClosed = false;

  private constructor(reader: TlsReader) {
    this.#reader = reader;
  }

  /**
   * Opens the files. Throws InvalidArgumentError when they cannot be read or used. Openers of the same files share the
   * first `section` and the first `log` given.
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

  /** Time at which the certificate expires, in milliseconds since 1970. */
  get endsAtMs(): number {
    return Date.parse(new X509Certificate(this.material.cert).validTo);
  }

  /** Returns true when the serial number, in hex, is in the revocation file. */
  isRevoked(serialNumber: string): boolean {
    return this.#reader.revoked.has(normalSerial(serialNumber));
  }

  /**
   * Returns true when the certificate is not revoked and the chain ends at an authority in `caFile`. `chain` begins with
   * the certificate; its verifier has checked the signatures and the name constraints.
   */
  isTrusted(chain: readonly X509Certificate[]): boolean {
    const [certificate, last] = [chain[0], chain.at(-1)];
    if (certificate === undefined || last === undefined || this.isRevoked(certificate.serialNumber)) return false;
    return certificatesIn(this.material.ca).some((authority) => last.verify(authority.publicKey));
  }

  /** Calls back after each change of the content in use. */
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
      onChanged: (found) => this.#reload(found),
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

  #reload(found: Found<keyof TlsMaterial>): void {
    const { material, changes, problems } = reloadTls(this.material, found, this.files, Date.now(), this.section);
    this.#watched.logProblem(this.log, problems.join("; "));
    if (changes.length === 0) return;
    this.material = material;
    this.revoked = this.#parseRevoked();
    const { serialNumber, validTo } = new X509Certificate(material.cert);
    const endsAt = new Date(validTo).toISOString();
    this.log?.warn({ serialNumber, endsAt }, `TLS files reloaded: ${changes.join(", ")}`);
    for (const listener of [...this.listeners]) listener();
  }
}
