import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import {
  type HostId,
  InvalidArgumentError,
  InvalidStateError,
  JOINED_HOSTS_DOMAIN,
  joinedHostUri,
  messageOf,
  quoted,
} from "@diskmesh/domain";
import type * as X509 from "@peculiar/x509";
import {
  ALGORITHM,
  commonNameOf,
  createAuthority,
  type KeyPair,
  keysOf,
  library,
  signCertificate,
} from "./authority.js";

const DAY_MS = 86_400_000;
/** Lifetime of the certificates of joined hosts; each renews itself after a third of it. */
const HOST_DAYS = 90;
const MAX_REQUEST_LENGTH = 4_096;

/** The authority, under the mesh's authority, that signs certificates of joined hosts and nothing else. */
export interface HostAuthority extends KeyPair {
  readonly endsAtMs: number;
}

/** Makes the authority of joined hosts. It ends with the mesh's authority. */
export async function createHostAuthority(mesh: KeyPair): Promise<KeyPair> {
  const certificate = new X509Certificate(mesh.certPem);
  const pathLength = await pathLengthOf(mesh.certPem);
  if (pathLength !== undefined && pathLength < 1)
    throw new InvalidStateError(
      "the mesh's authority may sign no other authority, because an older version made it: replace it (diskmesh pki replace-authority)",
    );
  return createAuthority({
    commonName: `diskmesh CA of hosts ${new Date().toISOString().slice(0, 19)}`,
    validDays: (Date.parse(certificate.validTo) - Date.now()) / DAY_MS,
    under: { authority: mesh, nameConstraints: nameConstraints() },
  });
}

async function pathLengthOf(certPem: string): Promise<number | undefined> {
  const x509 = await library();
  return new x509.X509Certificate(certPem).getExtension(x509.BasicConstraintsExtension)?.pathLength;
}

/**
 * Returns the extension (RFC 5280, 4.2.1.10) that permits URIs of joined hosts, and excludes each DNS name and address,
 * so that no host can pass for a server that is known by one.
 */
function nameConstraints(): Buffer {
  const names = (tag: number, values: readonly [tag: number, content: Buffer][]): Buffer =>
    der(tag, ...values.map(([type, content]) => der(0x30, der(type, content))));
  return der(
    0x30,
    names(0xa0, [[0x86, Buffer.from(JOINED_HOSTS_DOMAIN)]]),
    names(0xa1, [
      [0x82, Buffer.alloc(0)],
      [0x87, Buffer.alloc(8)],
      [0x87, Buffer.alloc(32)],
    ]),
  );
}

/** Encodes a value of fewer than 128 bytes. */
function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, content.length]), content]);
}

/** Reads the authority. Throws InvalidArgumentError for files that are no usable authority of joined hosts. */
export async function openHostAuthority(files: {
  readonly certFile: string;
  readonly keyFile: string;
}): Promise<HostAuthority> {
  const { certFile, keyFile } = files;
  try {
    const [certPem, keyPem] = [await readFile(certFile, "utf8"), await readFile(keyFile, "utf8")];
    const certificate = new X509Certificate(certPem);
    if (!certificate.checkPrivateKey(createPrivateKey(keyPem)))
      throw new InvalidArgumentError("the key belongs to another certificate");
    const x509 = await library();
    const constraints = new x509.X509Certificate(certPem).getExtension("2.5.29.30");
    if (!certificate.ca || constraints === null || !Buffer.from(constraints.value).equals(nameConstraints()))
      throw new InvalidArgumentError("it is not an authority that may sign for joined hosts alone");
    return { certPem, keyPem, endsAtMs: Date.parse(certificate.validTo) };
  } catch (error) {
    throw new InvalidArgumentError(
      `the authority ${quoted(certFile, 300)} with the key ${quoted(keyFile, 300)} is not usable: ${messageOf(error)}; make it with diskmesh pki host-authority`,
    );
  }
}

/** Makes a signing request, as PEM text, for the host's own name and key. */
export async function hostRequest(hostId: HostId, keyPem: string): Promise<string> {
  const x509 = await library();
  const keys = await keysOf(keyPem);
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: commonNameOf(hostId),
    keys,
    signingAlgorithm: ALGORITHM,
  });
  return `${request.toString("pem").trimEnd()}\n`;
}

/** A signing request that passed all checks. */
export interface HostRequest {
  readonly hostId: HostId;
  readonly publicKey: X509.PublicKey;
  /** SHA-256 of the public key, in hex. */
  readonly keyHash: string;
}

/**
 * Checks a signing request: its subject is the host's name and nothing else, it asks for no extension, its key is on
 * P-256, and the key signed it. Throws InvalidArgumentError otherwise.
 */
export async function parseHostRequest(pem: string, hostId: HostId): Promise<HostRequest> {
  const x509 = await library();
  let request: X509.Pkcs10CertificateRequest;
  if (pem.length > MAX_REQUEST_LENGTH) throw refused(`it is longer than ${MAX_REQUEST_LENGTH} characters`);
  try {
    request = new x509.Pkcs10CertificateRequest(pem);
  } catch {
    throw refused("it cannot be read");
  }
  const subject = request.subjectName.toJSON();
  const [first, ...others] = subject;
  const isOwn = others.length === 0 && first !== undefined && Object.keys(first).join() === "CN";
  if (!isOwn || first.CN?.length !== 1 || first.CN[0] !== hostId)
    throw refused(`its subject must be CN=${hostId} and nothing else`);
  if (request.attributes.length > 0) throw refused("it asks for more than the host's name");
  const { name, namedCurve } = request.publicKey.algorithm as { name?: string; namedCurve?: string };
  if (name !== "ECDSA" || namedCurve !== "P-256") throw refused("its key must be one for ECDSA on P-256");
  const isSigned = await request.verify().catch(() => false);
  if (!isSigned) throw refused("its signature is not by its key");
  const keyHash = createHash("sha256").update(Buffer.from(request.publicKey.rawData)).digest("hex");
  return { hostId, publicKey: request.publicKey, keyHash };
}

function refused(why: string): InvalidArgumentError {
  return new InvalidArgumentError(`the signing request is refused: ${why}`, { about: { field: "request" } });
}

/** Signs the certificate of a joined host. Returns it, followed by the authority's, as PEM text. */
export async function signHostCertificate(
  authority: HostAuthority,
  { hostId, publicKey }: HostRequest,
): Promise<{ readonly chainPem: string; readonly serialNumber: string; readonly endsAtMs: number }> {
  const validDays = Math.min(HOST_DAYS, (authority.endsAtMs - Date.now()) / DAY_MS);
  if (validDays <= 0)
    throw new InvalidStateError("the authority of joined hosts has ended: make another (diskmesh pki host-authority)");
  const certPem = await signCertificate(authority, publicKey, {
    uri: joinedHostUri(hostId),
    // The space keeps verifiers from taking the name for a DNS name, which the authority may not sign.
    commonName: `host ${hostId}`,
    dnsNames: [],
    ipAddresses: [],
    validDays,
    usages: ["server", "client"],
  });
  const { serialNumber, validTo } = new X509Certificate(certPem);
  return { chainPem: certPem + authority.certPem, serialNumber, endsAtMs: Date.parse(validTo) };
}
