import { X509Certificate } from "node:crypto";
import { formatIdentity, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { identityOfAlternativeNames } from "./identity.js";
import { parseRevoked } from "./revoked.js";
import { checkAuthorities, checkNotEnded, checkPair, type TlsFiles, type TlsMaterial } from "./tls-files.js";
import type { Found } from "./watched-files.js";

export interface ReloadedTls {
  /** Content to use from now on. */
  readonly material: TlsMaterial;
  /** Descriptions of the parts that changed. */
  readonly changes: readonly string[];
  /** Errors of the parts that keep their former content. */
  readonly problems: readonly string[];
}

/**
 * Decides which of the files to reload. Authorities, certificate with key, and revoked serial numbers are three parts:
 * an invalid part keeps its former content and does not hold up the others. `section` is the config section to name in
 * errors.
 */
export function reloadTls(
  current: TlsMaterial,
  found: Found<keyof TlsMaterial>,
  files: TlsFiles,
  nowMs: number,
  section = "tls",
): ReloadedTls {
  const changes: string[] = [];
  const problems: string[] = [];
  let material = current;
  const part = (
    names: readonly (keyof TlsMaterial)[],
    description: string,
    check: (next: TlsMaterial) => void,
  ): void => {
    try {
      const read = names.map((name) => [name, readOf(found[name])] as const);
      if (read.every(([name, content]) => content.equals(current[name]))) return;
      const next = { ...material, ...Object.fromEntries(read) };
      check(next);
      material = next;
      changes.push(description);
    } catch (error) {
      problems.push(messageOf(error));
    }
  };
  const { caFile, certFile, revokedFile } = files;
  part(["ca"], `the authorities in ${section}.caFile ${caFile}`, (next) => checkAuthorities(caFile, next.ca, section));
  part(["cert", "key"], `the certificate in ${section}.certFile ${certFile}`, (next) => {
    checkPair(files, next, section);
    checkNotEnded(certFile, next.cert, nowMs, section);
    checkBegun(`${section}.certFile ${certFile}`, next.cert, nowMs);
    checkSameHolder(`${section}.certFile ${certFile}`, current.cert, next.cert);
  });
  if (revokedFile !== undefined)
    part(["revoked"], `the revoked serial numbers in ${section}.revokedFile ${revokedFile}`, (next) =>
      parseRevoked(next.revoked, revokedFile, section),
    );
  return { material, changes, problems };
}

function readOf(content: Buffer | Error): Buffer {
  if (content instanceof Error) throw content;
  return content;
}

function checkBegun(name: string, cert: Buffer, nowMs: number): void {
  const beginsAtMs = Date.parse(new X509Certificate(cert).validFrom);
  if (beginsAtMs > nowMs)
    throw new InvalidArgumentError(
      `the certificate in ${name} begins at ${new Date(beginsAtMs).toISOString()}, which is in the future: check the clocks of both machines`,
    );
}

/** A certificate of another host, copied here by mistake, must not change the identity of a running process. */
function checkSameHolder(name: string, before: Buffer, after: Buffer): void {
  const [former, latter] = [holderOf(before), holderOf(after)];
  if (former !== latter)
    throw new InvalidArgumentError(
      `the certificate in ${name} names ${latter}, but this process runs as ${former}: put the right certificate back`,
    );
}

function holderOf(cert: Buffer): string {
  const identity = identityOfAlternativeNames(new X509Certificate(cert).subjectAltName);
  return identity === undefined ? "no identity of the mesh" : formatIdentity(identity);
}
