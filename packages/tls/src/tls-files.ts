import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { parseRevoked } from "./revoked.js";

/** Paths of the PEM files that a server or client identifies itself and checks its peers with. */
export interface TlsFiles {
  /** One authority, or several beside each other. */
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Serial numbers of certificates that are refused, in hex, one a line. */
  readonly revokedFile?: string | undefined;
}

/** What the files say. */
export interface TlsMaterial {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Empty without such a file. */
  readonly revoked: Buffer;
}

/**
 * Reads what a server is to identify itself with. InvalidArgumentError when a file is no certificate or key, when they do
 * not belong together, or when the certificate has ended: nobody would talk to it, and each would have to guess why.
 */
export function readServerTlsFiles(files: TlsFiles, nowMs: number): TlsMaterial {
  const material = readTlsFiles(files);
  checkAuthorities(files.caFile, material.ca);
  checkPair(files, material, nowMs);
  return material;
}

/** All that is wrong with what a server is to identify itself with. */
export function problemsOfTlsFiles(files: TlsFiles, nowMs: number): string[] {
  const { caFile, revokedFile } = files;
  return [
    ...problemsIn(() => checkAuthorities(caFile, readPem(caFile))),
    ...problemsOfPair(files, nowMs),
    ...problemsIn(() => revokedFile !== undefined && parseRevoked(readPem(revokedFile), revokedFile)),
  ];
}

/** What is wrong with a certificate and its key: the first thing, or each file that cannot be read. */
export function problemsOfPair(files: Pick<TlsFiles, "certFile" | "keyFile">, nowMs: number): string[] {
  const unread = [files.certFile, files.keyFile].flatMap((file) => problemsIn(() => readPem(file)));
  if (unread.length > 0) return unread;
  return problemsIn(() => checkPair(files, { cert: readPem(files.certFile), key: readPem(files.keyFile) }, nowMs));
}

function problemsIn(check: () => unknown): string[] {
  try {
    check();
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}

/** Reads the files as they are, and checks the revoked serial numbers: a list that is not understood refuses nobody. */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const { caFile, certFile, keyFile, revokedFile } = files;
  const revoked = revokedFile === undefined ? Buffer.alloc(0) : readPem(revokedFile);
  if (revokedFile !== undefined) parseRevoked(revoked, revokedFile);
  return { ca: readPem(caFile), cert: readPem(certFile), key: readPem(keyFile), revoked };
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Throws InvalidArgumentError unless each certificate that begins in the text is whole, and there is one. */
export function checkAuthorities(caFile: string, ca: Buffer): void {
  const name = `tls.caFile ${caFile}`;
  const text = ca.toString("latin1");
  const whole = text.match(PEM_CERTIFICATE) ?? [];
  const begun = text.split("-----BEGIN CERTIFICATE-----").length - 1;
  if (begun > whole.length) throw new InvalidArgumentError(`${name} holds a certificate in PEM that is not whole`);
  if (whole.length === 0) parsed(name, "certificate", () => new X509Certificate(ca));
  for (const one of whole) parsed(name, "certificate", () => new X509Certificate(one));
}

/** Throws InvalidArgumentError unless it is a certificate that counts now, with its key. */
export function checkPair(
  { certFile, keyFile }: Pick<TlsFiles, "certFile" | "keyFile">,
  { cert, key: keyPem }: Pick<TlsMaterial, "cert" | "key">,
  nowMs: number,
): void {
  const certificate = parsed(`tls.certFile ${certFile}`, "certificate", () => new X509Certificate(cert));
  const key = parsed(`tls.keyFile ${keyFile}`, "private key", () => createPrivateKey(keyPem));
  if (!certificate.checkPrivateKey(key))
    throw new InvalidArgumentError(
      `tls.keyFile ${keyFile} is not the key of the certificate in tls.certFile ${certFile}: give the two that were made together`,
    );
  const endsAtMs = Date.parse(certificate.validTo);
  if (endsAtMs <= nowMs)
    throw new InvalidArgumentError(
      `the certificate in tls.certFile ${certFile} ended at ${new Date(endsAtMs).toISOString()}: renew it`,
    );
}

/** The certificates in a text of PEM that `checkAuthorities` let pass. */
export function certificatesIn(pem: Buffer): X509Certificate[] {
  return (pem.toString("latin1").match(PEM_CERTIFICATE) ?? []).map((one) => new X509Certificate(one));
}

/** What the parser itself says may quote the file, which may be a key. */
function parsed<T>(file: string, what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new InvalidArgumentError(`${file} holds no ${what} in PEM that can be read; give one without a passphrase`, {
      cause: error,
    });
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
