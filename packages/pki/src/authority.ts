// @peculiar/x509 requires reflect-metadata to be loaded before it.
import "reflect-metadata";
import { createPrivateKey, createPublicKey, randomBytes, webcrypto } from "node:crypto";
import { type Identity, InvalidArgumentError, identityUri } from "@diskmesh/domain";
import type * as X509 from "@peculiar/x509";

/** A certificate and its private key, both as PEM text. */
export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface AuthorityOptions {
  readonly commonName: string;
  readonly validDays: number;
  /** Number of authorities that may follow in a chain: 0 by default, so that it signs certificates of processes alone. */
  readonly pathLength?: number;
  /** Authority that signs this one, and the extension with what this one may sign; by default it signs itself. */
  readonly under?: { readonly authority: KeyPair; readonly nameConstraints: Uint8Array };
}

/** Roles in a TLS handshake that the certificate permits. */
type CertificateUsage = "server" | "client";

export interface CertificateOptions {
  readonly identity: Identity;
  readonly commonName: string;
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly validDays: number;
  readonly usages: readonly CertificateUsage[];
  /** Private key to certify, on P-256; a new key by default. */
  readonly keyPem?: string;
}

export const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const NAME_CONSTRAINTS = "2.5.29.30";
const DAY_MS = 24 * 60 * 60 * 1000;

// Certificates begin this long before now, so that hosts whose clocks are behind accept them at once.
const CLOCK_SKEW_MS = 60 * 60 * 1000;

/** The library is imported on demand, because it is large and most processes sign nothing. */
export const library = () => import("./x509.js");

/** Makes a certificate authority that can sign certificates and nothing else. */
export async function createAuthority(options: AuthorityOptions): Promise<KeyPair> {
  const x509 = await library();
  const keys = await generateKeys();
  const { under } = options;
  const issuer = under && new x509.X509Certificate(under.authority.certPem);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerialNumber(),
    subject: commonNameOf(options.commonName),
    issuer: issuer?.subjectName ?? commonNameOf(options.commonName),
    ...validity(options.validDays),
    publicKey: keys.publicKey,
    signingKey: under === undefined ? keys.privateKey : await importKey(under.authority.keyPem),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, options.pathLength ?? 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(issuer === undefined ? [] : [await x509.AuthorityKeyIdentifierExtension.create(issuer)]),
      ...(under === undefined ? [] : [new x509.Extension(NAME_CONSTRAINTS, true, under.nameConstraints)]),
    ],
  });
  return { certPem: pemOf(certificate), keyPem: await exportKey(keys.privateKey) };
}

/** Makes a key and a certificate for one process. The identity is the URI in the subject alternative name. */
export async function issueCertificate(authority: KeyPair, options: CertificateOptions): Promise<KeyPair> {
  const keys = options.keyPem === undefined ? await generateKeys() : await keysOf(options.keyPem);
  const uri = identityUri(options.identity);
  return {
    certPem: await signCertificate(authority, keys.publicKey, { ...options, uri }),
    keyPem: await exportKey(keys.privateKey),
  };
}

/** Signs a certificate, as PEM text, for the holder of a public key on P-256. */
export async function signCertificate(
  authority: KeyPair,
  publicKey: X509.PublicKeyType,
  options: Omit<CertificateOptions, "identity" | "keyPem"> & { readonly uri: string },
): Promise<string> {
  if (options.usages.length === 0)
    throw new InvalidArgumentError(
      `the certificate of ${options.commonName} has no usage: give server, client or both`,
    );
  const x509 = await library();
  const issuer = new x509.X509Certificate(authority.certPem);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerialNumber(),
    subject: commonNameOf(options.commonName),
    issuer: issuer.subjectName,
    ...validity(options.validDays),
    publicKey,
    signingKey: await importKey(authority.keyPem),
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension(options.usages.map((usage) => USAGE_OIDS[usage])),
      new x509.SubjectAlternativeNameExtension(alternativeNames(options)),
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return pemOf(certificate);
}

const USAGE_OIDS: Record<CertificateUsage, string> = {
  server: "1.3.6.1.5.5.7.3.1",
  client: "1.3.6.1.5.5.7.3.2",
};

function alternativeNames(options: {
  readonly uri: string;
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}): X509.JsonGeneralNames {
  return [
    { type: "url", value: options.uri },
    ...options.dnsNames.map((value) => ({ type: "dns" as const, value })),
    ...options.ipAddresses.map((value) => ({ type: "ip" as const, value })),
  ];
}

async function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

export async function keysOf(keyPem: string): Promise<webcrypto.CryptoKeyPair> {
  const pkcs8 = createPrivateKey(keyPem).export({ type: "pkcs8", format: "der" });
  const spki = createPublicKey(keyPem).export({ type: "spki", format: "der" });
  return {
    privateKey: await webcrypto.subtle.importKey("pkcs8", pkcs8, ALGORITHM, true, ["sign"]),
    publicKey: await webcrypto.subtle.importKey("spki", spki, ALGORITHM, true, ["verify"]),
  };
}

export function commonNameOf(commonName: string): X509.JsonName {
  return [{ CN: [commonName] }];
}

function validity(validDays: number): { notBefore: Date; notAfter: Date } {
  const nowMs = Date.now();
  return { notBefore: new Date(nowMs - CLOCK_SKEW_MS), notAfter: new Date(nowMs + validDays * DAY_MS) };
}

// RFC 5280 requires a positive number of at most 20 octets. The first bit is cleared so that no reader takes it for
// negative.
function newSerialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString("hex");
}

function pemOf(certificate: X509.X509Certificate): string {
  return `${certificate.toString("pem").trimEnd()}\n`;
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const bytes = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key));
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN PRIVATE KEY-----\n${lines.join("\n")}\n-----END PRIVATE KEY-----\n`;
}

async function importKey(keyPem: string): Promise<webcrypto.CryptoKey> {
  const base64 = keyPem.replace(/-----[A-Z ]+-----/g, "").replace(/\s/g, "");
  return webcrypto.subtle.importKey("pkcs8", Buffer.from(base64, "base64"), ALGORITHM, false, ["sign"]);
}
