import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { parseRevoked } from "./revoked.js";

/** Paths of the PEM files with which a server or client identifies itself and verifies its peers. */
export interface TlsFiles {
  /** One authority, or several concatenated ones. */
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Serial numbers of certificates to refuse, in hex, one per line. */
  readonly revokedFile?: string | undefined;
}

/** Contents of the files. */
export interface TlsMaterial {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Empty when there is no such file. */
  readonly revoked: Buffer;
}

/**
 * Reads the files with which a server identifies itself. Throws InvalidArgumentError when a file is no certificate or
 * key, when they do not match, or when the certificate has expired: every client would refuse the server without a
 * clear reason.
 */
export function readServerTlsFiles(files: TlsFiles, nowMs: number, section = SECTION): TlsMaterial {
  const material = readTlsFiles(files, section);
  checkNotEnded(files.certFile, material.cert, nowMs, section);
  return material;
}

/** Returns every problem of the files with which a server identifies itself. */
export function problemsOfTlsFiles(files: TlsFiles, nowMs: number): string[] {
  const { revokedFile } = files;
  return [
    ...problemsOfPair(files, nowMs),
    ...problemsIn(() => revokedFile !== undefined && parseRevoked(readPem(revokedFile), revokedFile)),
  ];
}

/**
 * Returns the problems of the authorities, if given, and of a certificate with its key. Of the authorities, only the
 * first problem is returned. Of the pair, each unreadable file is returned, or the first problem if both files are
 * readable.
 */
export function problemsOfPair(
  files: Pick<TlsFiles, "certFile" | "keyFile"> & { readonly caFile?: string | undefined },
  nowMs: number,
): string[] {
  const { caFile } = files;
  const ofAuthorities = problemsIn(() => caFile !== undefined && checkAuthorities(caFile, readPem(caFile)));
  return [...ofAuthorities, ...problemsOfCertificate(files, nowMs)];
}

function problemsOfCertificate(files: Pick<TlsFiles, "certFile" | "keyFile">, nowMs: number): string[] {
  const unread = [files.certFile, files.keyFile].flatMap((file) => problemsIn(() => readPem(file)));
  if (unread.length > 0) return unread;
  return problemsIn(() => {
    const cert = readPem(files.certFile);
    checkPair(files, { cert, key: readPem(files.keyFile) });
    checkNotEnded(files.certFile, cert, nowMs);
  });
}

function problemsIn(check: () => unknown): string[] {
  try {
    check();
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}

/**
 * Reads the files. Throws InvalidArgumentError for content that TLS would refuse and names the file, which OpenSSL does
 * not. `section` is the config section to name in errors.
 */
export function readTlsFiles(files: TlsFiles, section = SECTION): TlsMaterial {
  const { caFile, certFile, keyFile, revokedFile } = files;
  const revoked = revokedFile === undefined ? Buffer.alloc(0) : readPem(revokedFile);
  // A revocation list that cannot be parsed would revoke nothing, so it is refused here.
  if (revokedFile !== undefined) parseRevoked(revoked, revokedFile, section);
  const material = { ca: readPem(caFile), cert: readPem(certFile), key: readPem(keyFile), revoked };
  checkAuthorities(caFile, material.ca, section);
  checkPair(files, material, section);
  return material;
}

const SECTION = "tls";

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Throws InvalidArgumentError unless the text holds at least one certificate and every one in it is complete. */
export function checkAuthorities(caFile: string, ca: Buffer, section = SECTION): void {
  const name = `${section}.caFile ${caFile}`;
  const text = ca.toString("latin1");
  const whole = text.match(PEM_CERTIFICATE) ?? [];
  const begun = text.split("-----BEGIN CERTIFICATE-----").length - 1;
  if (begun > whole.length) throw new InvalidArgumentError(`${name} has an incomplete PEM certificate`);
  if (whole.length === 0) parsed(name, "certificate", () => new X509Certificate(ca));
  for (const one of whole) parsed(name, "certificate", () => new X509Certificate(one));
  checkAccepted(name, { ca });
}

/** Throws InvalidArgumentError unless the files hold a certificate and its key. */
export function checkPair(
  { certFile, keyFile }: Pick<TlsFiles, "certFile" | "keyFile">,
  { cert, key: keyPem }: Pick<TlsMaterial, "cert" | "key">,
  section = SECTION,
): void {
  const [certName, keyName] = [`${section}.certFile ${certFile}`, `${section}.keyFile ${keyFile}`];
  const certificate = parsed(certName, "certificate", () => new X509Certificate(cert));
  const key = parsed(keyName, "private key", () => createPrivateKey(keyPem));
  if (!certificate.checkPrivateKey(key))
    throw new InvalidArgumentError(
      `${keyName} is not the key of the certificate in ${certName}: give a certificate and its own key`,
    );
  checkAccepted(certName, { cert, key: keyPem });
}

/** Throws InvalidArgumentError when a certificate that passed `checkPair` has expired. */
export function checkNotEnded(certFile: string, cert: Buffer, nowMs: number, section = SECTION): void {
  const endsAtMs = Date.parse(new X509Certificate(cert).validTo);
  if (endsAtMs <= nowMs)
    throw new InvalidArgumentError(
      `the certificate in ${section}.certFile ${certFile} ended at ${new Date(endsAtMs).toISOString()}: renew it`,
    );
}

/** OpenSSL also refuses certificates and keys that it finds too weak, which no parser does. */
function checkAccepted(name: string, tls: Parameters<typeof createSecureContext>[0]): void {
  try {
    createSecureContext(tls);
  } catch (error) {
    throw new InvalidArgumentError(`${name} is not accepted by OpenSSL: create a new key, e.g. on P-256`, {
      cause: error,
    });
  }
}

/** Returns the certificates in a PEM text that passed `checkAuthorities`. */
export function certificatesIn(pem: Buffer): X509Certificate[] {
  return (pem.toString("latin1").match(PEM_CERTIFICATE) ?? []).map((one) => new X509Certificate(one));
}

/** The parser's own message is dropped, because it may quote the file, which may be a key. */
function parsed<T>(file: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new InvalidArgumentError(
      `${file} has no readable ${what} in PEM; put a complete file there, without a passphrase`,
      {
        cause: error,
      },
    );
  }
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw cannotRead(file, error);
  }
}

export function cannotRead(file: string, error: unknown): InvalidArgumentError {
  return new InvalidArgumentError(`cannot read the TLS file ${file}: ${messageOf(error)}`, { cause: error });
}
