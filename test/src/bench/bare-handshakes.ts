import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import type { TlsFiles } from "@diskmesh/rpc";

export interface BareServer extends AsyncDisposable {
  readonly address: string;
  readonly pid: number;
}

/** Starts a server that only does TLS handshakes with client certificates, in its own process like the registry. */
export async function startBareServer(tls: TlsFiles, port: number): Promise<BareServer> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(tls), String(port)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const died = once(child, "exit").then(() => Promise.reject(new Error("the bare server ended")));
  await Promise.race([once(child, "message"), died]);
  died.catch(() => {});
  return {
    address: `127.0.0.1:${port}`,
    pid: child.pid as number,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
    },
  };
}

function serveBare(tls: TlsFiles, port: number): void {
  const [ca, cert, key] = [tls.caFile, tls.certFile, tls.keyFile].map((file) => readFileSync(file));
  const options = { ca, cert, key, requestCert: true, rejectUnauthorized: true };
  const server = createServer(options as object, (socket: TLSSocket) => {
    socket.on("error", () => {});
    socket.end("x");
  });
  server.listen(port, "127.0.0.1", 4_096, () => process.send?.("listening"));
  process.once("disconnect", () => process.exit(0));
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url))
  serveBare(JSON.parse(process.argv[2] ?? ""), Number(process.argv[3]));
