import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { connect } from "node:tls";
import type { TlsFiles } from "@diskmesh/rpc";

/** A server whose certificate is read by a client with a certificate of the mesh. */

interface Asked {
  readonly host: string;
  readonly port: number;
  /** True for NATS clients: the server sends first, in plain text. */
  readonly isNats?: boolean;
}

const TIMEOUT_MS = 10_000;

/** Returns the serial number of the server's certificate. */
export function shownSerial(asked: Asked, files: TlsFiles): Promise<string> {
  return connected(asked, files, (socket, heard) => {
    socket.once("secureConnect", () => heard(socket.getPeerX509Certificate()?.serialNumber ?? ""));
  });
}

/** Returns whether a NATS server admits a certificate to its cluster: it then sends data after the handshake. */
export async function isLetIn(asked: Asked, files: TlsFiles): Promise<boolean> {
  const heard = await connected(asked, files, (socket, hears) => {
    socket.once("data", (data: Buffer) => hears(String(data)));
    socket.once("secureConnect", () => socket.write("PING\r\n"));
  }).catch((error: Error) => error.message);
  if (/^(INFO|PING|PONG|\+OK)/.test(heard)) return true;
  if (heard === HUNG_UP) return false;
  throw new Error(`neither let in nor refused: ${heard}`);
}

const HUNG_UP = "the server hung up";

async function connected(
  { host, port, isNats }: Asked,
  { caFile, certFile, keyFile }: TlsFiles,
  use: (socket: ReturnType<typeof connect>, heard: (what: string) => void) => void,
): Promise<string> {
  const plain = createConnection(port, host).on("error", () => {});
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  try {
    await once(plain, "connect", { signal: limit });
    if (isNats) await once(plain, "data", { signal: limit });
    return await new Promise((resolve, reject) => {
      const [ca, cert, key] = [caFile, certFile, keyFile].map((file) => readFileSync(file));
      const socket = connect({ socket: plain, ca, cert, key, checkServerIdentity: () => undefined });
      socket.on("error", () => reject(new Error(HUNG_UP)));
      for (const one of [socket, plain] as Socket[]) one.once("close", () => reject(new Error(HUNG_UP)));
      limit.addEventListener("abort", () => reject(new Error(`no answer within ${TIMEOUT_MS} ms`)));
      use(socket, resolve);
    });
  } finally {
    plain.destroy();
  }
}
