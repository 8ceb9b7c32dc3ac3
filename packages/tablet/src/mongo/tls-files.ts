import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import { type Contents, type Found, readFiles } from "@diskmesh/tls";
import type { MongoClient } from "mongodb";

/** URL options that name TLS files. The certificate's file also contains its key. */
export type TlsOption = "tlsCAFile" | "tlsCRLFile" | "tlsCertificateKeyFile";

/** The driver's parsed options, including those of the URL. */
type Options = MongoClient["options"];

const NOTHING = Buffer.alloc(0);
const NO_FILES = { tlsCAFile: NOTHING, tlsCRLFile: NOTHING, tlsCertificateKeyFile: NOTHING };

/** Returns the path of each TLS file in the connection string; undefined where the connection string has none. */
export function tlsPathsOf(options: Options): { readonly [Each in TlsOption]: string | undefined } {
  const { tls, tlsCAFile, tlsCRLFile, tlsCertificateKeyFile } = options;
  if (!tls) return { tlsCAFile: undefined, tlsCRLFile: undefined, tlsCertificateKeyFile: undefined };
  return { tlsCAFile, tlsCRLFile, tlsCertificateKeyFile };
}

/**
 * Reads the TLS files. Rejects with UnavailableError, which names the file, when a file is unusable. The driver would
 * only report that it found no server.
 */
export async function readTlsFiles(options: Options): Promise<Contents<TlsOption>> {
  return checkTlsFiles(await readFiles(tlsPathsOf(options), NO_FILES), options);
}

/** Checks the contents; throws the errors that `readTlsFiles` rejects with. */
export function checkTlsFiles(found: Found<TlsOption>, options: Options): Contents<TlsOption> {
  const { passphrase } = options;
  const checked = (option: TlsOption, what: string, parse: (content: Buffer) => unknown): Buffer => {
    const [content, path] = [found[option], tlsPathsOf(options)[option]];
    if (content instanceof Error)
      throw new UnavailableError(`${option} of the address of MongoDB: ${content.message}`, { cause: content });
    try {
      if (path !== undefined) parse(content);
      return content;
    } catch (error) {
      throw new UnavailableError(
        `${option} ${path}, which the address of MongoDB names, has no usable ${what}: ${messageOf(error)}; put a complete file there`,
      );
    }
  };
  return {
    tlsCAFile: checked("tlsCAFile", "certificate in PEM", (ca) => new X509Certificate(ca)),
    tlsCRLFile: checked("tlsCRLFile", "list of revoked certificates in PEM", (crl) => createSecureContext({ crl })),
    tlsCertificateKeyFile: checked("tlsCertificateKeyFile", "certificate in PEM with its key", (pair) =>
      createSecureContext({ cert: pair, key: pair, passphrase }),
    ),
  };
}
