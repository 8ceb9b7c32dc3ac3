import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createClient, methodsOf, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import { Server, ServerCredentials } from "@grpc/grpc-js";

const bytes = {
  fromPartial: (message: Buffer): Buffer => message,
  encode: (message: Buffer) => ({ finish: () => message }),
  decode: (message: Uint8Array): Uint8Array => message,
};

/** Definition of a method without effect, like the generated definitions. */
export const NOOP = {
  fullName: "diskmesh.bench.NoopService",
  methods: {
    call: { name: "Call", requestType: bytes, requestStream: false, responseType: bytes, responseStream: false },
  },
} as const satisfies ServiceDefinition;

const SMALL_MESSAGE_BYTES = 16;

export interface NoopServer extends AsyncDisposable {
  readonly address: string;
  readonly pid: number;
  call(): Promise<unknown>;
}

/** Starts a bare grpc-js server with mutual TLS in its own process, which is the floor of every RPC. */
export async function startNoopServer(server: TlsFiles, client: TlsFiles): Promise<NoopServer> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(server)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const [port] = (await once(child, "message")) as [number];
  const address = `127.0.0.1:${port}`;
  const noop = createClient(NOOP, {
    address,
    tls: client,
    serverRole: "disk-registry",
    defaultDeadlineMs: 60_000,
  });
  const request = Buffer.alloc(SMALL_MESSAGE_BYTES);
  return {
    address,
    pid: child.pid as number,
    call: () => noop.call(request),
    async [Symbol.asyncDispose]() {
      noop.close();
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

async function serve(tls: TlsFiles): Promise<void> {
  const server = new Server({ "grpc.enable_channelz": 0 });
  server.addService(Object.fromEntries(methodsOf(NOOP)), {
    call: (_call: unknown, callback: (error: null, response: Buffer) => void) =>
      callback(null, Buffer.alloc(SMALL_MESSAGE_BYTES)),
  });
  const [ca, cert, key] = [tls.caFile, tls.certFile, tls.keyFile].map((file) => readFileSync(file));
  const credentials = ServerCredentials.createSsl(
    ca ?? null,
    [{ cert_chain: cert as Buffer, private_key: key as Buffer }],
    true,
  );
  server.bindAsync("127.0.0.1:0", credentials, (error, port) => {
    if (error) throw error;
    process.send?.(port);
  });
  process.once("disconnect", () => process.exit(0));
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) await serve(JSON.parse(process.argv[2] ?? ""));
