import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import {
  type HostId,
  InvalidArgumentError,
  InvalidStateError,
  joinedHostUri,
  type Logger,
  messageOf,
  parseHostPort,
  UnavailableError,
} from "@diskmesh/domain";
import { hostRequest } from "@diskmesh/pki";
import type { AgentConfig } from "../base/config.js";
import { parseToken } from "../base/join-token.js";
import { askForCertificate, authorityOf } from "./ask-registry.js";

/** Gets the files of `tls` by the token of the config, unless the certificate exists. */
export async function joinIfNew(
  { join, tls, hostId }: Pick<AgentConfig, "join" | "tls" | "hostId">,
  log: Logger,
): Promise<void> {
  if (join === undefined || existsSync(tls.certFile)) return;
  const token = await textOf(join.tokenFile, "the join token");
  const { address } = await joinHost({ hostId, tls, token, addresses: [join.address].flat() });
  log.info({ hostId, address }, "host joined");
}

/** The place of a host in the mesh's network, as its join has shown it. */
export interface Joined {
  /** Address of `addresses` that answered. */
  readonly address: string;
  /** Address of this host from which the registry was reached. */
  readonly ownAddress: string;
  /** Port of the registry's gRPC server. */
  readonly registryPort: number;
}

/**
 * Gets a certificate by a token, and writes the files of `tls`. A repeated join uses the key of an interrupted one, which
 * costs no further use of the token. Throws UnavailableError when no address answers, InvalidStateError when the host is
 * refused.
 */
export async function joinHost(options: {
  readonly hostId: HostId;
  readonly tls: AgentConfig["tls"];
  readonly token: string;
  readonly addresses: readonly string[];
}): Promise<Joined> {
  const { hostId, tls, addresses } = options;
  const { tokenId, secret, fingerprint } = parseToken(options.token);
  const keyPem = await ownKey(tls.keyFile);
  const request = await hostRequest(hostId, keyPem);
  const failures: string[] = [];
  for (const address of addresses) {
    try {
      const server = parseHostPort("the address at which hosts join", address);
      const caPem = await authorityOf(server, fingerprint);
      const answer = await askForCertificate(server, caPem, { tokenId, secret, hostId, request });
      requireOwn(answer.certificate, keyPem, hostId);
      await write(tls.caFile, `${caPem.trimEnd()}\n`);
      // The certificate is written last: while it is missing, a repeated start joins again with the same key.
      await write(tls.certFile, answer.certificate);
      return { address, ownAddress: answer.ownAddress, registryPort: answer.registryPort };
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      failures.push(error.message);
    }
  }
  throw new UnavailableError(`host ${hostId} has not joined: ${failures.join("; ")}`);
}

/** Reads a file; `what` names its content in the error. */
export async function textOf(file: string, what: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new InvalidArgumentError(`cannot read ${what} from the file ${file}: ${messageOf(error)}`);
  }
}

/** Returns the key of an interrupted join, or a new one. */
async function ownKey(keyFile: string): Promise<string> {
  if (existsSync(keyFile)) return textOf(keyFile, "the host's key");
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const keyPem = String(privateKey.export({ type: "pkcs8", format: "pem" }));
  await mkdir(dirname(keyFile), { recursive: true, mode: 0o700 });
  await replaceFile(keyFile, keyPem);
  return keyPem;
}

async function write(file: string, pem: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await replaceFile(file, pem, { mode: 0o644 });
}

/** Throws unless the certificate is for this host and key. */
export function requireOwn(chainPem: string, keyPem: string, hostId: HostId): void {
  let why = "it cannot be read";
  try {
    const certificate = new X509Certificate(chainPem);
    const isOwn = certificate.subjectAltName === `URI:${joinedHostUri(hostId)}`;
    if (isOwn && certificate.checkPrivateKey(createPrivateKey(keyPem))) return;
    why = "it is for another host or key";
  } catch {
    // `why` says so.
  }
  throw new InvalidStateError(`the registry's certificate for host ${hostId} is not used: ${why}`);
}
