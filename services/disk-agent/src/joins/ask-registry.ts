import type { X509Certificate } from "node:crypto";
import { request } from "node:https";
import { connect } from "node:tls";
import { type HostPort, InvalidStateError, isJsonObject, messageOf, quoted, UnavailableError } from "@diskmesh/domain";
import { identityOfAlternativeNames } from "@diskmesh/tls";

const TIMEOUT_MS = 15_000;
const MAX_ANSWER_BYTES = 65_536;
const TLS = { minVersion: "TLSv1.3" } as const;

/**
 * Returns the certificate, as PEM text, of the authority with that fingerprint (SHA-256 in hex), which the server must
 * send with its own. Nothing is sent to the server.
 */
export async function authorityOf({ host, port }: HostPort, fingerprint: string): Promise<string> {
  const where = `${host}:${port}`;
  const found = await new Promise<X509Certificate | undefined>((resolve, reject) => {
    // The certificate that comes back is compared with the fingerprint, and counts only for the next connection.
    const socket = connect({ ...TLS, host, port, rejectUnauthorized: false, timeout: TIMEOUT_MS });
    const fail = (why: string): void => {
      reject(new UnavailableError(`no answer of ${where}, at which hosts join: ${why}`));
      socket.destroy();
    };
    socket.once("error", (error) => fail(messageOf(error)));
    socket.once("timeout", () => fail(`none within ${TIMEOUT_MS} ms`));
    socket.once("secureConnect", () => {
      resolve(inChain(socket.getPeerX509Certificate(), fingerprint));
      socket.destroy();
    });
  });
  if (found !== undefined) return found.toString();
  throw new InvalidStateError(
    `${where} is not of the mesh that has made the join token, so the token was not sent to it: its authority is another one; check the address, or make another token if the mesh's authority was replaced`,
  );
}

const MAX_CHAIN = 8;

/** Returns the certificate with that fingerprint, from the server's own one on. */
function inChain(own: X509Certificate | undefined, fingerprint: string): X509Certificate | undefined {
  let each = own;
  for (let length = 0; each !== undefined && length < MAX_CHAIN; length++) {
    if (each.fingerprint256.replaceAll(":", "").toLowerCase() === fingerprint) return each;
    each = each.issuerCertificate;
  }
  return undefined;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly ownAddress: string;
}

/** The answer to a host that joins. */
export interface Certified {
  /** PEM text that is not checked. */
  readonly certificate: string;
  /** Port of the registry's gRPC server. */
  readonly registryPort: number;
  /** Address of this host from which the registry was reached. */
  readonly ownAddress: string;
}

/** Sends the request to a registry of that authority. */
export async function askForCertificate({ host, port }: HostPort, caPem: string, body: object): Promise<Certified> {
  const where = `${host}:${port}`;
  const { status, text, ownAddress } = await new Promise<Answer>((resolve, reject) => {
    const sent = request({
      ...TLS,
      host,
      port,
      path: "/v1/join",
      method: "POST",
      ca: caPem,
      agent: false,
      headers: { "content-type": "application/json" },
      signal: AbortSignal.timeout(TIMEOUT_MS),
      checkServerIdentity: (_, { subjectaltname }) =>
        identityOfAlternativeNames(subjectaltname)?.role === "disk-registry"
          ? undefined
          : new Error("its certificate is not that of a registry"),
    });
    sent.once("error", (error) => reject(new UnavailableError(`cannot join at ${where}: ${messageOf(error)}`)));
    sent.once("response", (response) => {
      let answer = "";
      const own = response.socket.localAddress ?? "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        answer += chunk;
        if (answer.length > MAX_ANSWER_BYTES) response.destroy(new Error("the answer is too long"));
      });
      response.once("error", (error) => reject(new UnavailableError(`cannot join at ${where}: ${messageOf(error)}`)));
      response.once("end", () => resolve({ status: response.statusCode ?? 0, text: answer, ownAddress: own }));
    });
    sent.end(JSON.stringify(body));
  });
  const answer = parsed(text);
  const { certificate, registryPort } = answer;
  if (status === 200 && typeof certificate === "string" && typeof registryPort === "number")
    return { certificate, registryPort, ownAddress };
  const why = typeof answer.error === "string" ? quoted(answer.error, 1_000) : "the answer is malformed";
  const message = `${where} refuses this host: ${why}`;
  throw status === 503 || status === 429 ? new UnavailableError(message) : new InvalidStateError(message);
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}
