import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Logger } from "@diskmesh/domain";
import { normalSerial, parseRevoked } from "./revoked.js";
import { type Found, takeUp } from "./take-up.js";
import { cannotRead, certificatesIn, readTlsFiles, type TlsFiles, type TlsMaterial } from "./tls-files.js";

/** Files are read rather than watched: what a mount or a link hides from a watch is seen all the same. */
const LOOK_INTERVAL_MS = 1_000;
/** What is being written reads differently then; what reads the same again is taken for written. */
const LOOK_AGAIN_MS = 200;

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

  /** Has all files that are open looked at now, and what is wrong with them told again. */
  static reloadAll(): void {
    for (const reader of readers.values()) reader.reload();
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
  #pending: Found | undefined;
  #told = "";
  #isLooking = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    readonly files: TlsFiles,
    private readonly section: string,
    private readonly onClosed: () => void,
  ) {
    this.material = readTlsFiles(files, section);
    this.revoked = this.#parseRevoked();
    this.#lookIn(LOOK_INTERVAL_MS);
  }

  reload(): void {
    this.#told = "";
    this.#lookIn(0);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.onClosed();
  }

  #parseRevoked(): ReadonlySet<string> {
    const { revokedFile } = this.files;
    return revokedFile === undefined ? new Set() : parseRevoked(this.material.revoked, revokedFile);
  }

  #lookIn(delayMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#look(), delayMs).unref();
  }

  async #look(): Promise<void> {
    // A look that a file system keeps is not joined by others.
    if (this.#isLooking) return;
    this.#isLooking = true;
    const found = await this.#read();
    this.#isLooking = false;
    if (this.#isClosed) return;
    const isSettled = this.#pending !== undefined && isSame(this.#pending, found);
    const isNews = !isSame(this.material, found);
    this.#pending = isNews ? found : undefined;
    if (!isNews) this.#told = "";
    else if (isSettled) this.#takeUp(found);
    this.#lookIn(isNews && !isSettled ? LOOK_AGAIN_MS : LOOK_INTERVAL_MS);
  }

  async #read(): Promise<Found> {
    const { caFile, certFile, keyFile, revokedFile } = this.files;
    const read = (file: string) => readFile(file).catch((error: unknown) => cannotRead(file, error));
    const [ca, cert, key, revoked] = await Promise.all([
      read(caFile),
      read(certFile),
      read(keyFile),
      revokedFile === undefined ? this.material.revoked : read(revokedFile),
    ]);
    return { ca, cert, key, revoked };
  }

  #takeUp(found: Found): void {
    const { material, changes, problems } = takeUp(this.material, found, this.files, Date.now(), this.section);
    const told = problems.join("; ");
    if (told !== "" && told !== this.#told)
      this.log?.error({ alert: "tls_files" }, `${told}; what was in use before stays so until that is mended`);
    this.#told = told;
    if (changes.length === 0) return;
    this.material = material;
    this.revoked = this.#parseRevoked();
    const { serialNumber, validTo } = new X509Certificate(material.cert);
    const endsAt = new Date(validTo).toISOString();
    this.log?.warn({ serialNumber, endsAt }, `${changes.join(" and ")}: changed, and in use from now on`);
    for (const listener of [...this.listeners]) listener();
  }
}

function isSame(one: Found, other: Found): boolean {
  return (["ca", "cert", "key", "revoked"] as const).every((part) => {
    const [a, b] = [one[part], other[part]];
    if (a instanceof Error || b instanceof Error)
      return a instanceof Error && b instanceof Error && a.message === b.message;
    return a.equals(b);
  });
}
