import { readFileSync } from "node:fs";
import { connect, type TLSSocket } from "node:tls";
import type { TestCertificates } from "@diskmesh/testkit";

export interface RawPlace {
  readonly certs: Pick<TestCertificates, "files">;
  readonly host: string;
  readonly port: number;
}

/** Opens a TLS connection to an HTTPS API, for bytes that no HTTP client would send. */
export function rawConnection({ certs, host, port }: RawPlace): Promise<TLSSocket> {
  const ca = readFileSync(certs.files("operator").caFile);
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, ca, servername: "localhost" }, () => resolve(socket));
    socket.once("error", reject);
  });
}

/** Sends bytes, and returns all text received until the server closes the connection. */
export async function rawAnswer(place: RawPlace, bytes: string | Buffer): Promise<string> {
  const socket = await rawConnection(place);
  return new Promise((resolve) => {
    let answer = "";
    socket.setEncoding("utf8").on("data", (piece: string) => {
      answer += piece;
    });
    // A server that refuses a body may reset the connection after its response.
    socket.on("error", () => {});
    socket.once("close", () => resolve(answer));
    socket.write(bytes);
  });
}

/** Returns the Authorization header of a login "name:password". */
export const basic = (login: string): string => `Basic ${Buffer.from(login).toString("base64")}`;
