import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidArgumentError, messageOf, parseId, quoted } from "@diskmesh/domain";
import { createAuthority, issueCertificate, type KeyPair } from "./authority.js";
import { pinOf } from "./identified-key.js";

const AUTHORITY_DAYS = 3650;
const CURVE = "prime256v1";
const DAY_MS = 24 * 60 * 60 * 1000;

export interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Certificate authority that signs certificates for agents of VMs only. */
export interface AgentAuthority extends KeyPair {
  /** SHA-256 of the authority's certificate, in hex. */
  readonly id: string;
  readonly endsAtMs: number;
}

/** Certificate and private key for one agent. This package does not store the key. */
export interface AgentCertificate extends KeyPair {
  /** SHA-256 of its public key, in hex. */
  readonly pin: string;
  readonly endsAtMs: number;
}

/**
 * Reads an authority; with `makes`, creates one when neither file exists. Throws InvalidArgumentError for files that
 * are no usable authority.
 */
export async function openAgentAuthority(
  { certFile, keyFile }: KeyPairFiles,
  { makes }: { readonly makes: boolean },
): Promise<AgentAuthority> {
  const [certPem, keyPem] = await Promise.all([read(certFile), read(keyFile)]);
  if (certPem !== undefined && keyPem !== undefined) return agentAuthority({ certPem, keyPem }, certFile);
  const isMissing = certPem === undefined && keyPem === undefined;
  if (!makes || !isMissing) {
    const missing = [certPem ?? certFile, keyPem ?? keyFile].filter((file) => file === certFile || file === keyFile);
    throw new InvalidArgumentError(`${missing.map((file) => quoted(file)).join(" and ")} missing: give both files`);
  }
  const made = await createAuthority({ commonName: "diskmesh agents CA", validDays: AUTHORITY_DAYS });
  for (const file of [certFile, keyFile]) await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await replaceFile(keyFile, made.keyPem);
  await replaceFile(certFile, made.certPem, { mode: 0o644 });
  return agentAuthority(made, certFile);
}

function agentAuthority({ certPem, keyPem }: KeyPair, certFile: string): AgentAuthority {
  let certificate: X509Certificate;
  let key: KeyObject;
  try {
    certificate = new X509Certificate(certPem);
    key = createPrivateKey(keyPem);
  } catch (error) {
    throw new InvalidArgumentError(`${quoted(certFile)} or its key cannot be read: ${messageOf(error)}`);
  }
  if (!certificate.ca) throw new InvalidArgumentError(`${quoted(certFile)} is not the certificate of an authority`);
  if (!certificate.checkPrivateKey(key))
    throw new InvalidArgumentError(`the key beside ${quoted(certFile)} belongs to another certificate`);
  if (key.asymmetricKeyDetails?.namedCurve !== CURVE)
    throw new InvalidArgumentError(`the key of ${quoted(certFile)} must be one for ECDSA on P-256`);
  const endsAtMs = Date.parse(certificate.validTo);
  return {
    certPem,
    keyPem: String(key.export({ type: "pkcs8", format: "pem" })),
    id: authorityId(certificate),
    endsAtMs,
  };
}

function authorityId(certificate: X509Certificate): string {
  return certificate.fingerprint256.replaceAll(":", "").toLowerCase();
}

/**
 * Makes a key and a certificate for an agent id. The common name contains the id as BOSH expects, and the identity URI
 * names it, too. The certificate ends with its authority at the latest.
 */
export async function issueAgentCertificate(
  authority: AgentAuthority,
  agentId: string,
  validDays: number,
): Promise<AgentCertificate> {
  const name = parseId("agent_id", agentId);
  const pair = await issueCertificate(authority, {
    identity: { role: "vm-agent", name },
    commonName: `${name}.agent.bosh-internal`,
    dnsNames: [],
    ipAddresses: [],
    validDays: Math.min(validDays, (authority.endsAtMs - Date.now()) / DAY_MS),
    usages: ["client"],
  });
  const certificate = new X509Certificate(pair.certPem);
  return { ...pair, pin: pinOf(certificate), endsAtMs: Date.parse(certificate.validTo) };
}

async function read(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new InvalidArgumentError(`cannot read ${quoted(file)}: ${messageOf(error)}`);
  }
}
