import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { InvalidArgumentError, messageOf } from "@diskmesh/domain";

/** Paths of the PEM files that a server or client identifies itself and checks its peers with. */
export interface TlsFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface TlsMaterial {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/**
 * Reads what a server is to identify itself with. InvalidArgumentError when a file is no certificate or key, when they do
 * not belong together, or when the certificate has ended: nobody would talk to it, and each would have to guess why.
 */
export function readServerTlsFiles(files: TlsFiles, nowMs: number): TlsMaterial {
  const material = readTlsFiles(files);
  parsed(`tls.caFile ${files.caFile}`, "certificate", () => new X509Certificate(material.ca));
  const certificate = parsed(`tls.certFile ${files.certFile}`, "certificate", () => new X509Certificate(material.cert));
  const key = parsed(`tls.keyFile ${files.keyFile}`, "private key", () => createPrivateKey(material.key));
  if (!certificate.checkPrivateKey(key))
    throw new InvalidArgumentError(
      `tls.keyFile ${files.keyFile} is not the key of the certificate in tls.certFile ${files.certFile}: give the two that were made together`,
    );
  const endsAtMs = Date.parse(certificate.validTo);
  if (endsAtMs <= nowMs)
    throw new InvalidArgumentError(
      `the certificate in tls.certFile ${files.certFile} ended at ${new Date(endsAtMs).toISOString()}: renew it`,
    );
  return material;
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

export function readTlsFiles(files: TlsFiles): TlsMaterial {
  return { ca: readPem(files.caFile), cert: readPem(files.certFile), key: readPem(files.keyFile) };
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new InvalidArgumentError(`cannot read the TLS file ${file}: ${messageOf(error)}`, { cause: error });
  }
}
