import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
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

export function readTlsFiles(files: TlsFiles): TlsMaterial {
  return { ca: readPem(files.caFile), cert: readPem(files.certFile), key: readPem(files.keyFile) };
}

let lastContext: { readonly tls: TlsMaterial; readonly context: SecureContext } | undefined;

/**
 * What a client with these files connects with. The same again while the files say the same: to take in a key and
 * certificates costs as much as several calls, and some services make clients all the time.
 */
export function clientContext(files: TlsFiles): SecureContext {
  const tls = readTlsFiles(files);
  const { ca, cert, key } = tls;
  const last = lastContext?.tls;
  const isSame = last?.ca.equals(ca) && last.cert.equals(cert) && last.key.equals(key);
  if (lastContext === undefined || !isSame) lastContext = { tls, context: createSecureContext({ ca, cert, key }) };
  return lastContext.context;
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new InvalidArgumentError(`cannot read the TLS file ${file}: ${messageOf(error)}`, { cause: error });
  }
}
