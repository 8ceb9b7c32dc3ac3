import { type ExecFileOptions, execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createConnection, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
import { silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, skipBecause, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { SESSION_KEY_BYTES } from "../model/sessions.js";
import type { DiskPart } from "../parts/disk-part.js";
import { ByteReader } from "./byte-reader.js";
import { NbdClient } from "./client.js";
import { greetServer } from "./client-handshake.js";
import { NbdConnection } from "./connection.js";
import { awaitStartTls, greetClient } from "./handshake.js";
import * as nbd from "./protocol.js";
import { secureServerSide, UnknownIdentityError } from "./tls.js";

const run = promisify(execFile);
const SIZE_BYTES = 1024 * 1024;
const IDENTITY = "dev-a/7";
const TIMEOUT_MS = 30_000;

describe("NBD over TLS with a pre-shared key", () => {
  const key = randomBytes(SESSION_KEY_BYTES);
  let bytes: Buffer;
  let server: Server;
  let failures: string[];

  const disk: DiskPart = {
    read: async (offset, length) => Buffer.from(bytes.subarray(offset, offset + length)),
    write: async (offset, data) => void bytes.set(data, offset),
    clear: async (offset, length) => void bytes.fill(0, offset, offset + length),
    flush: async () => {},
    close: () => {},
  };

  const serve = async (raw: Socket): Promise<void> => {
    raw.on("error", () => {});
    const reader = new ByteReader(raw);
    const greeting = await greetClient(reader, raw);
    if (!(await awaitStartTls(reader, raw))) return;
    reader.release();
    const { socket, identity } = await secureServerSide(
      raw,
      (name) => (name === IDENTITY ? key : undefined),
      TIMEOUT_MS,
    );
    socket.on("error", () => {});
    const served = { name: identity, sizeBytes: SIZE_BYTES, blockSizeBytes: 4096, description: "boot-1" };
    const limits = { negotiationTimeoutMs: TIMEOUT_MS, maxInFlightRequests: 8, maxInFlightBytes: SIZE_BYTES };
    await new NbdConnection({ socket, served, disk, limits, log: silentLogger, greeting }).run();
  };

  const listening = async (accept: (raw: Socket) => void): Promise<Server> => {
    const listener = createServer(accept);
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    return listener;
  };

  const portOf = (listener: Server): number => (listener.address() as AddressInfo).port;

  const connect = (change: { identity?: string; key?: Buffer; port?: number } = {}) =>
    NbdClient.connectOverTls(
      { host: "127.0.0.1", port: portOf(server), identity: IDENTITY, key, ...change },
      { signal: new AbortController().signal, silenceTimeoutMs: TIMEOUT_MS },
    );

  beforeEach(async () => {
    bytes = Buffer.alloc(SIZE_BYTES);
    failures = [];
    server = await listening((raw) => {
      void serve(raw).catch((error: Error) => {
        failures.push(error.message);
        raw.destroy();
      });
    });
  });

  afterEach(() => void server.close());

  it("carries reads, writes, clears and flushes, and the export's description", async () => {
    const client = await connect();
    expect([client.sizeBytes, client.description]).to.deep.equal([SIZE_BYTES, "boot-1"]);
    const data = randomBytes(SIZE_BYTES);
    await client.write(0, data, { fua: true });
    await client.trim(0, 4096, { fua: true });
    await client.writeZeroes(8192, 4096, { noHole: true, fua: true });
    await client.flush();
    data.fill(0, 0, 4096).fill(0, 8192, 12_288);
    expect((await client.read(0, SIZE_BYTES)).equals(data)).to.equal(true);
    expect(bytes.equals(data)).to.equal(true);
    client.destroy();
    await client.ended;
    await rejection(client.read(0, 1));
  });

  it("tells a client of an unknown identity apart from one with another key", async () => {
    await rejection(connect({ identity: "dev-a/6" }), UnknownIdentityError, "dev-a/6");
    const wrongKey = await rejection(connect({ key: randomBytes(SESSION_KEY_BYTES) }));
    expect(wrongKey).not.to.be.instanceOf(UnknownIdentityError);
  });

  it("refuses a server that shows a certificate instead of the key", async () => {
    const { certFile, keyFile } = (await testCertificates()).files("disk-registry");
    const tls = createTlsServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
    tls.on("tlsClientError", () => {});
    const impostor = await listening((raw) => {
      raw.on("error", () => {});
      void (async () => {
        const reader = new ByteReader(raw);
        await greetClient(reader, raw);
        await awaitStartTls(reader, raw);
        reader.release();
        tls.emit("connection", raw);
      })();
    });
    await rejection(connect({ port: portOf(impostor) }));
    impostor.close();
  });

  it("answers nothing but STARTTLS before TLS", async () => {
    const socket = createConnection(portOf(server), "127.0.0.1");
    socket.on("error", () => {});
    const reader = new ByteReader(socket);
    await greetServer(reader, socket);
    const { OPTION, REPLY, encodeOption, encodeInfoRequest } = nbd;
    const options: readonly [number, Buffer, number][] = [
      [OPTION.LIST, Buffer.alloc(0), REPLY.ERR_TLS_REQD],
      [OPTION.INFO, encodeInfoRequest("", []), REPLY.ERR_TLS_REQD],
      [OPTION.GO, encodeInfoRequest("", []), REPLY.ERR_TLS_REQD],
      [99, Buffer.alloc(0), REPLY.ERR_TLS_REQD],
      [OPTION.STARTTLS, Buffer.alloc(4), REPLY.ERR_INVALID],
    ];
    for (const [option, data, expected] of options) {
      socket.write(encodeOption(option, data));
      const { reply, lengthBytes } = nbd.decodeOptionReplyHeader(await reader.read(nbd.OPTION_REPLY_HEADER_BYTES));
      expect([option, reply, lengthBytes]).to.deep.equal([option, expected, 0]);
    }
    socket.write(encodeOption(OPTION.EXPORT_NAME, Buffer.alloc(0)));
    await eventually(() => failures.includes("the client asked for an export before it started TLS"));
    socket.destroy();
  });

  it("ends a connection whose client sends plain requests after STARTTLS", async () => {
    const socket = createConnection(portOf(server), "127.0.0.1");
    socket.on("error", () => {});
    const reader = new ByteReader(socket);
    await greetServer(reader, socket);
    const go = nbd.encodeOption(nbd.OPTION.GO, nbd.encodeInfoRequest("", []));
    socket.write(Buffer.concat([nbd.encodeOption(nbd.OPTION.STARTTLS, Buffer.alloc(0)), go]));
    await eventually(() => failures.length === 1);
    socket.destroy();
  });

  it("ends a connection whose server is silent", async () => {
    const silent = await listening(() => {});
    const target = { host: "127.0.0.1", port: portOf(silent), identity: IDENTITY, key };
    const limits = { signal: new AbortController().signal, silenceTimeoutMs: 50 };
    await rejection(NbdClient.connectOverTls(target, limits));
    silent.close();
  });

  describe("third-party clients", () => {
    let folder: string;

    beforeEach(() => {
      folder = temporaryFolder();
      writeKey(IDENTITY, key);
    });

    const writeKey = (identity: string, secret: Buffer) => {
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "keys.psk"), `${identity}:${secret.toString("hex")}\n`, { mode: 0o600 });
    };

    const tool = async (context: Mocha.Context, name: string, args: string[]): Promise<string> => {
      const options: ExecFileOptions = { timeout: TIMEOUT_MS };
      try {
        return String((await run(name, args, options)).stdout);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") skipBecause(context, `${name} is not installed`);
        throw error;
      }
    };

    const qemuIo = (context: Mocha.Context, identity: string, ...commands: string[]) =>
      tool(context, "qemu-io", [
        ...["--object", `tls-creds-psk,id=psk,endpoint=client,dir=${folder},username=${identity}`],
        ...commands.flatMap((command) => ["-c", command]),
        "--image-opts",
        `driver=nbd,host=127.0.0.1,port=${portOf(server)},tls-creds=psk`,
      ]);

    it("qemu-io with the key writes, flushes, trims and reads", async function () {
      const written = await qemuIo(
        this,
        IDENTITY,
        "write -f -P 0x5a 0 64k",
        "write -z 4k 4k",
        "discard 8k 4k",
        "aio_flush",
        "read -P 0x5a 0 4k",
        "read -P 0 4k 8k",
      );
      expect(written).not.to.match(/fail|error/i);
      const expected = Buffer.alloc(65_536, 0x5a).fill(0, 4096, 12_288);
      expect(bytes.subarray(0, 65_536).equals(expected)).to.equal(true);
    });

    it("qemu-io with another key or an unknown identity fails in the handshake, and writes nothing", async function () {
      for (const [identity, secret] of [
        [IDENTITY, randomBytes(SESSION_KEY_BYTES)],
        ["dev-a/6", key],
      ] as const) {
        writeKey(identity, secret);
        const failed = await rejection(qemuIo(this, identity, "write -P 0x5a 0 64k"));
        expect((failed as unknown as { stderr: string }).stderr).to.match(/TLS handshake failed/);
      }
      expect(bytes.equals(Buffer.alloc(SIZE_BYTES))).to.equal(true);
    });

    it("nbdinfo with the key reads the size and the description", async function () {
      const uri = `nbds://${encodeURIComponent(IDENTITY)}@127.0.0.1:${portOf(server)}/?tls-psk-file=${join(folder, "keys.psk")}`;
      const { exports } = JSON.parse(await tool(this, "nbdinfo", ["--json", uri])) as { exports: object[] };
      expect(exports[0]).to.include({ "export-size": SIZE_BYTES, description: "boot-1" });
    });
  });
});
