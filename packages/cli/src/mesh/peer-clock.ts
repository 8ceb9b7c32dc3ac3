import { connect } from "node:tls";
import { hostPortOf, messageOf } from "@diskmesh/domain";

const TIMEOUT_MS = 2_000;

/**
 * Returns the text of a failed call. When a certificate is the cause, adds its validity and this machine's time, because
 * either of them may be wrong. Reads the certificate without trusting it.
 */
export async function failureText(address: string, error: unknown): Promise<string> {
  const text = messageOf(error);
  if (!isOfClocks(text)) return text;
  const validity = await validityAt(address);
  if (validity === undefined) return text;
  const [from, to, now] = [...validity, new Date()].map((time) => time.toISOString());
  return `${text}; its certificate is valid from ${from} to ${to}, and the clock of this machine shows ${now}`;
}

/** Returns whether a failed call says that a certificate is not valid at this time, by one of the clocks. */
export const isOfClocks = (text: string): boolean => /certificate has ended|certificate is not valid yet/.test(text);

function validityAt(address: string): Promise<readonly [from: Date, to: Date] | undefined> {
  const { host, port } = hostPortOf(address) ?? { host: "", port: 0 };
  return new Promise((resolve) => {
    // The certificate is only shown; nothing is sent over this connection.
    const socket = connect({ host, port, rejectUnauthorized: false, ALPNProtocols: ["h2"], timeout: TIMEOUT_MS });
    const end = (found?: readonly [Date, Date]): void => {
      socket.destroy();
      resolve(found);
    };
    socket.once("error", () => end()).once("timeout", () => end());
    socket.once("secureConnect", () => {
      const { valid_from: from, valid_to: to } = socket.getPeerCertificate();
      end([new Date(from), new Date(to)]);
    });
  });
}
