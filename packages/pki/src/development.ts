import { createPrivateKey, X509Certificate } from "node:crypto";
import { chmod, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { type Identity, identityUri, parseHostId } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "./authority.js";
import { onlyUriOf } from "./identified-key.js";

const AUTHORITY_DAYS = 3650;
const CERTIFICATE_DAYS = 365;
const RENEW_BEFORE_MS = 30 * 24 * 60 * 60 * 1000;

// Stock bosh agents accept a NATS server only under this common name.
export const NATS_COMMON_NAME = "default.nats.bosh-internal";

/** Paths of a TLS peer's certificate and key, and of the authority that it trusts. */
export interface CertificateFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** Returns the paths of certificate `name` in a folder of `createDevelopmentCertificates`. */
export function certificateFiles(folder: string, name: string): CertificateFiles {
  return {
    caFile: join(folder, "ca.pem"),
    certFile: join(folder, `${name}.pem`),
    keyFile: join(folder, `${name}-key.pem`),
  };
}

interface Wanted {
  /** Base name of the two files. */
  readonly name: string;
  readonly identity: Identity;
  readonly commonName: string;
  readonly dnsNames: readonly string[];
}

/**
 * Makes the certificates that a mesh on one machine needs, in one folder: `ca.pem`, `ca-key.pem`, and `<name>.pem` with
 * `<name>-key.pem` for each process. Keeps certificates that were signed by that authority and are valid for another 30
 * days, so it can run at every start, in one process at a time. Every certificate serves both ends of a connection on
 * the loopback interface. The CSI driver's certificate has `csiScope` as its scope; none by default.
 */
export async function createDevelopmentCertificates(
  folder: string,
  options: { readonly hostIds: readonly string[]; readonly csiScope?: string },
): Promise<void> {
  const wanted = wantedCertificates(options.hostIds, options.csiScope ?? "");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
  const authority = await ensurePair(folder, "ca", isUsableAuthority, () =>
    createAuthority({ commonName: "diskmesh development CA", validDays: AUTHORITY_DAYS, pathLength: 1 }),
  );
  const issuer = new X509Certificate(authority.certPem);
  for (const one of wanted) {
    const isUsable = (pair: KeyPair) => isUsableCertificate(pair, issuer, one);
    await ensurePair(folder, one.name, isUsable, () =>
      issueCertificate(authority, {
        identity: one.identity,
        commonName: one.commonName,
        dnsNames: one.dnsNames,
        ipAddresses: ["127.0.0.1", "::1"],
        validDays: CERTIFICATE_DAYS,
        usages: ["server", "client"],
      }),
    );
  }
}

function wantedCertificates(hostIds: readonly string[], csiScope: string): Wanted[] {
  const roles = ["operator", "director", "cpi-dispatcher", "disk-registry"] as const;
  return [
    ...roles.map((role) => ({ name: role, identity: { role, name: "" }, commonName: role, dnsNames: ["localhost"] })),
    { name: "csi", identity: { role: "csi", name: csiScope }, commonName: "csi", dnsNames: ["localhost"] },
    {
      name: "nats",
      identity: { role: "nats", name: "" },
      commonName: NATS_COMMON_NAME,
      dnsNames: ["localhost", NATS_COMMON_NAME],
    },
    ...hostIds.map((hostId) => {
      const name = `disk-agent-${parseHostId(hostId)}`;
      return {
        name,
        identity: { role: "disk-agent" as const, name: hostId },
        commonName: name,
        dnsNames: ["localhost"],
      };
    }),
  ];
}

async function ensurePair(
  folder: string,
  name: string,
  isUsable: (pair: KeyPair) => boolean,
  make: () => Promise<KeyPair>,
): Promise<KeyPair> {
  const { certFile, keyFile } = certificateFiles(folder, name);
  const existing = await readPair(certFile, keyFile);
  if (existing && isUsable(existing)) {
    await chmod(keyFile, 0o600);
    return existing;
  }
  const made = await make();
  // A crash between the two writes leaves a key that does not match the certificate; the next run replaces both.
  await replaceFile(keyFile, made.keyPem);
  await replaceFile(certFile, made.certPem, { mode: 0o644 });
  return made;
}

async function readPair(certFile: string, keyFile: string): Promise<KeyPair | undefined> {
  try {
    const [certPem, keyPem] = await Promise.all([readFile(certFile, "utf8"), readFile(keyFile, "utf8")]);
    return { certPem, keyPem };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function isUsableAuthority(pair: KeyPair): boolean {
  const certificate = parseMatchingCertificate(pair);
  return certificate?.ca === true && validLongEnough(certificate);
}

function isUsableCertificate(pair: KeyPair, issuer: X509Certificate, wanted: Wanted): boolean {
  const certificate = parseMatchingCertificate(pair);
  if (!certificate || !validLongEnough(certificate)) return false;
  return certificate.verify(issuer.publicKey) && isOnly(certificate, wanted.identity);
}

/**
 * Returns true when the certificate contains this identity and no other name that a verifier could take for an
 * identity.
 */
function isOnly(certificate: X509Certificate, identity: Identity): boolean {
  return onlyUriOf(certificate) === identityUri(identity);
}

/** Returns undefined for a damaged file or an unrelated key; the caller then makes both files anew. */
function parseMatchingCertificate(pair: KeyPair): X509Certificate | undefined {
  try {
    const certificate = new X509Certificate(pair.certPem);
    return certificate.checkPrivateKey(createPrivateKey(pair.keyPem)) ? certificate : undefined;
  } catch {
    return undefined;
  }
}

function validLongEnough(certificate: X509Certificate): boolean {
  return Date.parse(certificate.validTo) - Date.now() > RENEW_BEFORE_MS;
}
