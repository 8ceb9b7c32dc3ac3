import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { InvalidStateError } from "@diskmesh/domain";

/** The files of `tls` that say by whom this process is known. */
interface OwnFiles {
  readonly caFile: string;
  readonly certFile: string;
}

/** Returns the certificate, as PEM text, of the authority that signed this process's certificate. */
export async function ownAuthorityPem({ caFile, certFile }: OwnFiles): Promise<string> {
  const own = new X509Certificate(await readFile(certFile));
  const pems = (await readFile(caFile, "latin1")).match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g);
  const found = (pems ?? []).find((pem) => own.verify(new X509Certificate(pem).publicKey));
  if (found !== undefined) return `${found}\n`;
  throw new InvalidStateError(
    `no authority in ${caFile} has signed ${certFile} itself, so no join token can name it: give this registry a certificate of the mesh's authority`,
  );
}

/** Returns the SHA-256 of that certificate, in hex: join tokens name it. */
export async function ownAuthority(files: OwnFiles): Promise<string> {
  const { fingerprint256 } = new X509Certificate(await ownAuthorityPem(files));
  return fingerprint256.replaceAll(":", "").toLowerCase();
}
