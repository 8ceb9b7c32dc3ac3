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
