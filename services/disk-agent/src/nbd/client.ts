import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { ByteReader } from "./byte-reader.js";
import { greetServer, type OpenedExport, openExport } from "./client-handshake.js";
import {
  COMMAND,
  COMMAND_FLAG,
  decodeSimpleReply,
  encodeRequest,
  MAX_REQUEST_BYTES,
  NBD_ERROR,
  SIMPLE_REPLY_BYTES,
} from "./protocol.js";
import { shortSocketPath } from "./socket-path.js";
import { connectOverTls, type TlsTarget } from "./tls.js";

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

/** A small NBD client, with any number of concurrent requests on one connection. */
export class NbdClient {
  readonly sizeBytes: number;
  /** Description of the export; empty when the server has none. */
  readonly description: string;
  /** True when the server said that it refuses writes. */
  readonly isReadOnly: boolean;
  /** Resolves when the connection has ended. Unanswered requests fail. */
  readonly ended: Promise<void>;
  readonly #socket: Socket;
  readonly #pending = new Map<bigint, PendingRequest>();
  #lastCookie = 0n;
  #failure: Error | undefined;

  private constructor(socket: Socket, reader: ByteReader, opened: OpenedExport) {
    this.#socket = socket;
    this.sizeBytes = opened.sizeBytes;
    this.description = opened.description;
    this.isReadOnly = opened.isReadOnly;
    this.ended = this.#receive(reader);
  }

  /** Connects to the export at a socket, or at a link to a socket. */
  static async connect(options: { socketPath: string; exportName?: string }): Promise<NbdClient> {
    await using name = await shortSocketPath(options.socketPath);
    const socket = createConnection(name.path);
    try {
      await once(socket, "connect");
      socket.on("error", () => undefined);
      const reader = new ByteReader(socket);
      await greetServer(reader, socket);
      return new NbdClient(socket, reader, await openExport(reader, socket, options.exportName ?? ""));
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  /**
   * Connects over TCP and TLS, with a pre-shared key. The connection ends when the server is silent for
   * `silenceTimeoutMs` while it owes an answer.
   */
  static async connectOverTls(
    target: TlsTarget,
    limits: { readonly signal: AbortSignal; readonly silenceTimeoutMs: number },
  ): Promise<NbdClient> {
    return connectOverTls(target, limits, async (socket) => {
      let client: NbdClient | undefined;
      // An idle connection may be silent; the kernel probes its peer.
      socket.setTimeout(limits.silenceTimeoutMs, () => {
        if (client === undefined || client.#pending.size > 0) socket.destroy();
      });
      const reader = new ByteReader(socket);
      client = new NbdClient(socket, reader, await openExport(reader, socket, ""));
      return client;
    });
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
  async trim(offsetBytes: number, lengthBytes: number, options: { fua?: boolean } = {}): Promise<void> {
    await this.#request(COMMAND.TRIM, offsetBytes, lengthBytes, { flags: options.fua ? COMMAND_FLAG.FUA : 0 });
  }

  /** Writes up to 2^32 - 1 zeros. With `noHole` they occupy space like other data. */
  async writeZeroes(
    offsetBytes: number,
    lengthBytes: number,
    options: { noHole?: boolean; fua?: boolean } = {},
  ): Promise<void> {
    const flags = (options.noHole ? COMMAND_FLAG.NO_HOLE : 0) | (options.fua ? COMMAND_FLAG.FUA : 0);
    await this.#request(COMMAND.WRITE_ZEROES, offsetBytes, lengthBytes, { flags });
  }

  /** Sends DISC and closes the connection; unanswered requests fail. */
  async disconnect(): Promise<void> {
    if (this.#socket.destroyed) return;
    const closed = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    this.#socket.end(encodeRequest({ flags: 0, command: COMMAND.DISC, cookie: 0n, offsetBytes: 0n, lengthBytes: 0 }));
    await closed;
  }

  /** Closes the connection at once; unanswered requests fail. */
  destroy(): void {
    this.#socket.destroy();
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
      const header = encodeRequest({ flags: options.flags ?? 0, command, cookie, offsetBytes: offset, lengthBytes });
      // Corked, so that TLS sends header and data in one record.
      this.#socket.cork();
      this.#socket.write(header);
      if (options.payload) this.#socket.write(options.payload);
      this.#socket.uncork();
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

function errorName(error: number): string {
  return Object.entries(NBD_ERROR).find(([, value]) => value === error)?.[0] ?? `error ${error}`;
}
