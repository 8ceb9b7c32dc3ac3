import { isPublicKey } from "../model/wireguard.js";
import { connectOverTls, type TlsTarget, UnknownIdentityError } from "../nbd/tls.js";

/** `offer` asks whether a host serves a part by NVMe/TCP, and `share` makes it do so. */
export type ShareVerb = "offer" | "share";

/** Answer of a device's host to a holder that has proved the key of the session. */
export interface ShareAnswer {
  /** Reason why the host does not serve the part by NVMe/TCP. */
  readonly whyNot?: string | undefined;
  /** Error of a part that may be served later. */
  readonly error?: string | undefined;
  /** Subsystem and address of a part that is served. The host may be a name. */
  readonly nqn?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  /** Public key and endpoint of the host's WireGuard, inside which the address is. */
  readonly publicKey?: string | undefined;
  readonly endpoint?: string | undefined;
  /** True when the holder was no peer of that WireGuard before. */
  readonly isNew?: boolean | undefined;
}

/** Request of a holder, in place of the identity of an NBD connection. */
export interface ShareRequest {
  readonly verb: ShareVerb;
  readonly identity: string;
  /** Public key of the holder's WireGuard; undefined for NVMe/TCP without it. */
  readonly publicKey?: string | undefined;
}

const MAX_ANSWER_BYTES = 4_096;
const TIMEOUT_MS = 20_000;

/** Returns the identity with which a holder asks. TLS proves all of it with the key of the session. */
export function formatShareRequest({ verb, identity, publicKey }: ShareRequest): string {
  return `${verb}${publicKey === undefined ? "" : `@${publicKey}`}:${identity}`;
}

/** Returns what a holder asks; undefined for the identity of an NBD connection. */
export function parseShareRequest(text: string): ShareRequest | undefined {
  const [, verb, publicKey, identity = ""] = /^(offer|share)(?:@([^:]+))?:(.+)$/.exec(text) ?? [];
  if (verb === undefined || (publicKey !== undefined && !isPublicKey(publicKey))) return undefined;
  return { verb: verb as ShareVerb, identity, publicKey };
}

/**
 * Asks a device's host, over TLS with the key of the session. Agents without NVMe/TCP know no such identity, and are answered
 * for. Throws when the host does not answer.
 */
export async function askForShare(target: TlsTarget): Promise<ShareAnswer> {
  const limits = { signal: AbortSignal.timeout(TIMEOUT_MS), silenceTimeoutMs: TIMEOUT_MS };
  try {
    // The loop destroys the socket when it ends.
    return await connectOverTls(target, limits, async (socket) => {
      let text = "";
      for await (const chunk of socket) {
        text += chunk;
        if (text.length > MAX_ANSWER_BYTES) throw new Error(`the answer has more than ${MAX_ANSWER_BYTES} bytes`);
        if (text.endsWith("\n")) break;
      }
      return parseAnswer(text);
    });
  } catch (error) {
    if (!(error instanceof UnknownIdentityError)) throw error;
    return { whyNot: `the agent at ${target.host}:${target.port} serves nothing by NVMe/TCP, or refuses the session` };
  }
}

export function formatAnswer(answer: ShareAnswer): string {
  return `${JSON.stringify(answer)}\n`;
}

function parseAnswer(text: string): ShareAnswer {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(`the answer is malformed: ${JSON.stringify(text.slice(0, 200))}`);
  }
  const { whyNot, error, nqn, host, port, publicKey, endpoint, isNew } = (answer ?? {}) as Record<string, unknown>;
  const textOf = (value: unknown) => (typeof value === "string" ? value : undefined);
  return {
    whyNot: textOf(whyNot),
    error: textOf(error),
    nqn: textOf(nqn),
    host: textOf(host),
    port: Number.isInteger(port) ? Number(port) : undefined,
    publicKey: textOf(publicKey),
    endpoint: textOf(endpoint),
    isNew: isNew === true,
  };
}
