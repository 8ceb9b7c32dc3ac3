import { createConnection, type Socket } from "node:net";
import { ByteReader } from "./byte-reader.js";
import {
  COMMAND,
  COMMAND_FLAG,
  decodeOptionReplyHeader,
  decodeSimpleReply,
  encodeInfoRequest,
  encodeOption,
  encodeRequest,
  HANDSHAKE,
  INFO,
  INIT_MAGIC,
  MAX_REQUEST_BYTES,
  NBD_ERROR,
  OPTION,
  OPTION_MAGIC,
  OPTION_REPLY_HEADER_BYTES,
  REPLY,
  SIMPLE_REPLY_BYTES,
} from "./protocol.js";
import { shortSocketPath } from "./socket-path.js";

/** Thrown when the server answered a request with an error. */
export class NbdRequestError extends Error {
  override readonly name = "NbdRequestError";

  constructor(
    what: string,
    /** NBD error name, e.g. "EIO", or "ESHUTDOWN" when another session took over the disk. */
    readonly code: string,
  ) {
    super(`${what} failed with ${code}`);
  }
}

interface PendingRequest {
  readonly what: string;
  /** Number of data bytes that follow a successful reply. */
  readonly dataBytes: number;
  resolve(data: Buffer): void;
  reject(error: Error): void;
}

/** A small NBD client over a Unix socket, with any number of concurrent requests on one connection. */
export class NbdClient {
  readonly sizeBytes: number;
  readonly #socket: Socket;
  readonly #pending = new Map<bigint, PendingRequest>();
  #lastCookie = 0n;
  #failure: Error | undefined;

  private constructor(socket: Socket, reader: ByteReader, sizeBytes: number) {
    this.#socket = socket;
    this.sizeBytes = sizeBytes;
    void this.#receive(reader);
  }

  /** Connects to the export at a socket, or at a link to a socket. */
  static async connect(options: { socketPath: string; exportName?: string }): Promise<NbdClient> {
    await using name = await shortSocketPath(options.socketPath);
    const socket = createConnection(name.path);
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once("connect", resolve);
        socket.once("error", reject);
      });
      socket.on("error", () => undefined);
      const reader = new ByteReader(socket);
      return new NbdClient(socket, reader, await negotiate(socket, reader, options.exportName ?? ""));
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  async read(offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    const chunks: Promise<Buffer>[] = [];
    for (let done = 0; done < lengthBytes; done += MAX_REQUEST_BYTES) {
      const length = Math.min(MAX_REQUEST_BYTES, lengthBytes - done);
      chunks.push(this.#request(COMMAND.READ, offsetBytes + done, length, { dataBytes: length }));
    }
    return Buffer.concat(await Promise.all(chunks));
  }

  async write(offsetBytes: number, data: Buffer, options: { fua?: boolean } = {}): Promise<void> {
    const flags = options.fua ? COMMAND_FLAG.FUA : 0;
    const chunks: Promise<Buffer>[] = [];
    for (let done = 0; done < data.length; done += MAX_REQUEST_BYTES) {
      const payload = data.subarray(done, done + MAX_REQUEST_BYTES);
      chunks.push(this.#request(COMMAND.WRITE, offsetBytes + done, payload.length, { flags, payload }));
    }
    await Promise.all(chunks);
  }

  async flush(): Promise<void> {
    await this.#request(COMMAND.FLUSH, 0, 0, {});
  }

  /** Declares the content of up to 2^32 - 1 bytes unused. */
  async trim(offsetBytes: number, lengthBytes: number): Promise<void> {
    await this.#request(COMMAND.TRIM, offsetBytes, lengthBytes, {});
  }

  /** Writes up to 2^32 - 1 zeros. With `noHole` they occupy space like other data. */
  async writeZeroes(offsetBytes: number, lengthBytes: number, options: { noHole?: boolean } = {}): Promise<void> {
    const flags = options.noHole ? COMMAND_FLAG.NO_HOLE : 0;
    await this.#request(COMMAND.WRITE_ZEROES, offsetBytes, lengthBytes, { flags });
  }

  /** Sends DISC and closes the connection; unanswered requests fail. */
  async disconnect(): Promise<void> {
    if (this.#socket.destroyed) return;
    const closed = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    this.#socket.end(encodeRequest({ flags: 0, command: COMMAND.DISC, cookie: 0n, offsetBytes: 0n, lengthBytes: 0 }));
    await closed;
  }

  #request(
    command: number,
    offsetBytes: number,
    lengthBytes: number,
    options: { flags?: number; payload?: Buffer; dataBytes?: number },
  ): Promise<Buffer> {
    if (this.#failure) return Promise.reject(this.#failure);
    this.#lastCookie += 1n;
    const cookie = this.#lastCookie;
    const name = Object.entries(COMMAND).find(([, value]) => value === command)?.[0] ?? `command ${command}`;
    return new Promise((resolve, reject) => {
      const what = `${name} of ${lengthBytes} bytes at ${offsetBytes}`;
      this.#pending.set(cookie, { what, dataBytes: options.dataBytes ?? 0, resolve, reject });
      const offset = BigInt(offsetBytes);
      this.#socket.write(
        encodeRequest({ flags: options.flags ?? 0, command, cookie, offsetBytes: offset, lengthBytes }),
      );
      if (options.payload) this.#socket.write(options.payload);
    });
  }

  async #receive(reader: ByteReader): Promise<void> {
    try {
      for (;;) {
        const { cookie, error } = decodeSimpleReply(await reader.read(SIMPLE_REPLY_BYTES));
        const pending = this.#pending.get(cookie);
        if (!pending) throw new Error(`the server answered request ${cookie}, which was not sent`);
        const data = error === 0 ? await reader.read(pending.dataBytes) : Buffer.alloc(0);
        this.#pending.delete(cookie);
        if (error === 0) pending.resolve(data);
        else pending.reject(new NbdRequestError(pending.what, errorName(error)));
      }
    } catch (error) {
      this.#failure = error as Error;
      this.#socket.destroy();
      for (const pending of this.#pending.values()) pending.reject(this.#failure);
      this.#pending.clear();
    }
  }
}

async function negotiate(socket: Socket, reader: ByteReader, exportName: string): Promise<number> {
  const greeting = await reader.read(18);
  if (greeting.readBigUInt64BE(0) !== INIT_MAGIC || greeting.readBigUInt64BE(8) !== OPTION_MAGIC)
    throw new Error("the server does not speak NBD");
  const flags = Buffer.alloc(4);
  flags.writeUInt32BE(HANDSHAKE.FIXED_NEWSTYLE | HANDSHAKE.NO_ZEROES, 0);
  socket.write(Buffer.concat([flags, encodeOption(OPTION.GO, encodeInfoRequest(exportName, []))]));
  let sizeBytes: number | undefined;
  for (;;) {
    const { reply, lengthBytes } = decodeOptionReplyHeader(await reader.read(OPTION_REPLY_HEADER_BYTES));
    const data = await reader.read(lengthBytes);
    if (reply === REPLY.INFO && data.readUInt16BE(0) === INFO.EXPORT) sizeBytes = Number(data.readBigUInt64BE(2));
    if (reply >= REPLY.ERR_UNSUP) throw new Error(`the server refused the export: ${data.toString()}`);
    if (reply !== REPLY.ACK) continue;
    if (sizeBytes === undefined) throw new Error("the server did not send the export's size");
    return sizeBytes;
  }
}

function errorName(error: number): string {
  return Object.entries(NBD_ERROR).find(([, value]) => value === error)?.[0] ?? `error ${error}`;
}
