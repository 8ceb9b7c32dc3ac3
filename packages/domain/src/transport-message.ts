/** Messages of OpenSSL, Node and grpc-js about failed connections, and their meaning to an operator. */
const MEANINGS: readonly (readonly [RegExp, string])[] = [
  [/alert certificate expired/i, "the other side refuses this process's certificate because it has ended: renew it"],
  [/alert certificate revoked/i, "the other side refuses this process's certificate because it is revoked"],
  [
    /alert unknown ca/i,
    "the other side refuses this process's certificate because it does not trust its authority (CA): check the CA file there",
  ],
  [
    /alert (?:bad|unsupported) certificate|alert certificate unknown|alert certificate required|alert access denied/i,
    "the other side refuses this process's certificate: check that an authority trusted there has issued it, and that it has not ended",
  ],
  [
    /alert handshake failure/i,
    "the other side ends the TLS handshake: check which certificate and which TLS version it requires",
  ],
  [/wrong version number|packet length too long|http request/i, "the other side does not speak TLS: check the address"],
  [/key values mismatch/i, "the key does not belong to the certificate: check which files are configured"],
  [
    /certificate has expired|CERT_HAS_EXPIRED/i,
    "the other side's certificate has ended by the clock of this machine: set this clock if it is wrong, or renew the certificate there",
  ],
  [
    /certificate is not yet valid|CERT_NOT_YET_VALID/i,
    "the other side's certificate is not valid yet: check the clocks of both machines",
  ],
  [
    /self[- _]signed[- _]cert|unable[ _]to[ _](?:verify the first|verify_leaf|get[ _](?:local[ _])?issuer)/i,
    "this process does not trust the authority (CA) of the other side's certificate: check the CA file here",
  ],
  [/ECONNREFUSED/, "no process listens there: check the address, and that the process runs"],
  [/EHOSTUNREACH|ENETUNREACH/, "there is no route to it: check the address and the network"],
  [/ENOTFOUND|EAI_AGAIN|Name resolution failed/i, "the name cannot be looked up: check its spelling and the DNS"],
  [
    /ECONNRESET|socket hang up|socket disconnected before secure TLS|Failed to connect\b/i,
    "the other side closed the connection before it was established: it may be stopping, lack descriptors, or refuse this process's certificate (see its log)",
  ],
];

const MAX_RAW_LENGTH = 120;

/**
 * Replaces an error text of a library by its meaning, with the original text in brackets; returns unknown texts
 * unchanged.
 */
export function transportMessage(text: string): string {
  const raw = text
    .replace(/^No connection established\. Last error: /, "")
    .replace(/\.? ?Resolution note: ?.*$/s, "")
    .trim();
  const meaning = MEANINGS.find(([pattern]) => pattern.test(raw))?.[1];
  if (meaning === undefined) return raw;
  // Drops the thread, file and line that OpenSSL puts before its message.
  const original = raw
    .replace(/[0-9A-F]+:error:[0-9A-F]+:SSL routines:[^:]*:([^:]*):.*$/s, "$1")
    .replace(/\s+/g, " ")
    .slice(0, MAX_RAW_LENGTH);
  return `${meaning} (${original})`;
}
