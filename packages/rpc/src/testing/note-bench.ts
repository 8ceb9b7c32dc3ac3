import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import type { Identity } from "@diskmesh/domain";
import { certificateFiles, createDevelopmentCertificates, issueCertificate } from "@diskmesh/pki";
import type { TlsFiles } from "@diskmesh/tls";
import type { CallContext } from "../call/call-context.js";
import type { Client, Handlers, ServiceDefinition } from "../call/definition.js";
import { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "../call/limits.js";
import type { ClientOptions } from "../client/client.js";
import { createClient } from "../client/following.js";
import type { RpcFailure } from "../server/call-gate.js";
import type { RefusedConnection } from "../server/secure-listener.js";
import { type AllowedRoles, RpcServer } from "../server/server.js";

/** Shared test setup of this package: certificates, and a service with a method of each kind. */

export interface Note {
  text: string;
  count: number;
}

function encodeNote(note: Note): BinaryWriter {
  if (!Number.isSafeInteger(note.count)) throw new Error("count is no safe integer");
  return new BinaryWriter().uint32(10).string(note.text).uint32(16).int64(note.count);
}

function decodeNote(bytes: Uint8Array): Note {
  const reader = new BinaryReader(bytes);
  const note = { text: "", count: 0 };
  while (reader.pos < reader.len) {
    const key = reader.uint32();
    if (key === 10) note.text = reader.string();
    else if (key === 16) note.count = safeNumber(reader.int64());
    else reader.skip(key & 7);
  }
  return note;
}

function safeNumber(value: bigint | string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new Error("Value is larger than Number.MAX_SAFE_INTEGER");
  return number;
}

const Note = {
  encode: encodeNote,
  decode: decodeNote,
  fromPartial: ({ text = "", count = 0 }: Partial<Note>): Note => ({ text, count }),
};

const types = { requestType: Note, responseType: Note };

export const NoteService = {
  fullName: "test.v1.NoteService",
  methods: {
    get: { name: "Get", requestStream: false, responseStream: false, ...types },
    list: { name: "List", requestStream: false, responseStream: true, ...types },
    add: { name: "Add", requestStream: true, responseStream: false, ...types },
  },
} as const;

export type NoteHandlers = Handlers<typeof NoteService>;

/** Handlers that echo requests: unary, `count` times, and all joined. */
const echoHandlers: NoteHandlers = {
  get: async (request) => request,
  async *list(request) {
    for (let count = 1; count <= request.count; count++) yield { text: request.text, count };
  },
  async add(requests) {
    const sum = { text: "", count: 0 };
    for await (const request of requests) {
      sum.text += request.text;
      sum.count += request.count;
    }
    return sum;
  },
};

export class Bench {
  readonly folder = mkdtempSync(join(tmpdir(), "dm-rpc-"));
  readonly failures: RpcFailure[] = [];
  /** Texts of requests of changing methods, in the order in which onChange reported them. */
  readonly changes: string[] = [];
  readonly refused: RefusedConnection[] = [];
  readonly #closers: (() => unknown)[] = [];
  port = 0;

  async makeCertificates(): Promise<void> {
    await createDevelopmentCertificates(this.folder, { hostIds: ["host-1"] });
  }

  files(name: string, folder = this.folder): TlsFiles {
    return certificateFiles(folder, name);
  }

  /** Makes a client's certificate for the identity. */
  async filesOf(identity: Identity): Promise<TlsFiles> {
    const name = `${identity.role}-of-${identity.name}`;
    const read = (file: string) => readFileSync(join(this.folder, file), "utf8");
    const made = await issueCertificate(
      { certPem: read("ca.pem"), keyPem: read("ca-key.pem") },
      { identity, commonName: name, dnsNames: [], ipAddresses: [], validDays: 1, usages: ["client"] },
    );
    const files = this.files(name);
    writeFileSync(files.certFile, made.certPem);
    writeFileSync(files.keyFile, made.keyPem);
    return files;
  }

  /** Opens a silent connection with the certificate `name`. */
  connectAs(name: string, options: { manualHandshake?: boolean } = {}): TLSSocket {
    const { caFile, certFile, keyFile } = this.files(name);
    return connect({
      host: "127.0.0.1",
      port: this.port,
      ALPNProtocols: ["h2"],
      ca: readFileSync(caFile),
      cert: readFileSync(certFile),
      key: readFileSync(keyFile),
      checkServerIdentity: () => undefined,
      ...options,
    }).on("error", () => {});
  }

  /** Starts a server with the registry's identity. */
  async serve(
    handlers: Partial<NoteHandlers> = {},
    options: {
      limits?: Partial<RpcServerLimits>;
      roles?: AllowedRoles<typeof NoteService>;
      scoped?: ReadonlySet<string>;
      port?: number;
      shortage?: () => string | undefined;
      tls?: TlsFiles;
    } = {},
  ): Promise<RpcServer> {
    const server = new RpcServer({
      tls: options.tls ?? this.files("disk-registry"),
      limits: { ...DEFAULT_RPC_SERVER_LIMITS, ...options.limits },
      onError: (failure) => this.failures.push(failure),
      onChange: ({ request }) => this.changes.push((request as Note).text),
      onRefused: (refused) => this.refused.push(refused),
      ...(options.shortage && { shortage: options.shortage }),
    });
    server.addService(NoteService, {
      roles: options.roles ?? ["operator", "director"],
      handlers: { ...echoHandlers, ...handlers },
      changing: new Set(["get"]),
      ...(options.scoped && { scoped: options.scoped }),
    });
    this.port = await server.listen({ host: "127.0.0.1", port: options.port ?? 0 });
    server.setServing(true);
    this.#closers.push(() => server.drain());
    return server;
  }

  client(options: Partial<ClientOptions> = {}): Client<typeof NoteService> {
    return this.clientOf(NoteService, options);
  }

  clientOf<Definition extends ServiceDefinition>(
    definition: Definition,
    options: Partial<ClientOptions> = {},
  ): Client<Definition> {
    const client = createClient(definition, {
      address: `127.0.0.1:${this.port}`,
      tls: this.files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 60_000,
      ...options,
    });
    this.#closers.push(() => client.close());
    return client;
  }

  /** Closes everything started since the last call, clients first. */
  async closeAll(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
    this.failures.length = 0;
    this.changes.length = 0;
    this.refused.length = 0;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Resolves when the call's signal aborts, with its reason. */
export function abortReason(call: CallContext): Promise<unknown> {
  return new Promise((resolve) => {
    if (call.signal.aborted) resolve(call.signal.reason);
    call.signal.addEventListener("abort", () => resolve(call.signal.reason));
  });
}

export interface RawAnswer {
  readonly code: number;
  readonly message: string;
}

/** A raw HTTP/2 client for data that grpc-js would not send. */
export function rawClient(bench: Bench, name: string) {
  const files = bench.files(name);
  const session = connectHttp2(`https://127.0.0.1:${bench.port}`, {
    ca: readFileSync(files.caFile),
    cert: readFileSync(files.certFile),
    key: readFileSync(files.keyFile),
    checkServerIdentity: () => undefined,
  });
  const stream = (path: string, messages: Buffer[], headers: Record<string, string> = {}): Promise<RawAnswer> =>
    new Promise((resolve, reject) => {
      const call = session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/grpc",
        te: "trailers",
        ...headers,
      });
      const answer = (trailers: Record<string, unknown>): void => {
        if (trailers["grpc-status"] !== undefined)
          resolve({ code: Number(trailers["grpc-status"]), message: String(trailers["grpc-message"] ?? "") });
      };
      call.on("response", answer).on("trailers", answer).on("error", reject).resume();
      for (const message of messages) call.write(framed(message));
      call.end();
    });
  return {
    stream,
    raw: (path: string, message: Buffer, headers?: Record<string, string>) => stream(path, [message], headers),
    /** Sends a ping, and resolves when it is answered. */
    ping: () => new Promise<void>((resolve, reject) => session.ping((error) => (error ? reject(error) : resolve()))),
    close: () => session.close(),
  };
}

function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Repeats an attempt until it does not throw; returns its result. */
export async function eventually<Result>(attempt: () => Promise<Result>, withinMs = 120_000): Promise<Result> {
  const untilMs = performance.now() + withinMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > untilMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Returns a promise and its resolve function. */
export function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
