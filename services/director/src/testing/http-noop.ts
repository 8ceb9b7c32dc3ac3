import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import type { TlsFiles } from "@diskmesh/rpc";
import { fastify } from "fastify";

/**
 * Starts a process whose fastify server answers every request with a few bytes over TLS: the baseline for the speed of
 * routes.
 */
export async function startHttpNoop(tls: TlsFiles): Promise<AsyncDisposable & { readonly port: number }> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(tls)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const [port] = (await once(child, "message")) as [number];
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

async function serve({ certFile, keyFile }: TlsFiles): Promise<void> {
  const https = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
  const app = fastify({ https });
  app.get("/noop", async () => ({ ok: true }));
  await app.listen({ host: "127.0.0.1", port: 0 });
  process.send?.((app.server.address() as AddressInfo).port);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await serve(JSON.parse(process.argv[2] ?? "{}"));
