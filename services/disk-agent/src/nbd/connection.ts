import type { Socket } from "node:net";
import { DeviceIoError, InvalidArgumentError, type Logger, messageOf, OutdatedError } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";
import { countIo, type IoCounters, type IoOperation } from "../base/io-counters.js";
import type { DiskPart } from "../parts/disk-part.js";
import { ByteReader, ConnectionEndedError } from "./byte-reader.js";
import { type ClientGreeting, greetClient, type NbdExport, negotiate } from "./handshake.js";
import {
  COMMAND,
  COMMAND_FLAG,
  decodeRequest,
  encodeSimpleReply,
  MAX_REQUEST_BYTES,
  NBD_ERROR,
  type NbdRequest,
  REQUEST_BYTES,
} from "./protocol.js";

export interface NbdConnectionLimits {
  readonly negotiationTimeoutMs: number;
  readonly maxInFlightRequests: number;
  readonly maxInFlightBytes: number;
}

/** One client's connection to an export: negotiation, then concurrent requests, answered in any order. */
export class NbdConnection {
  readonly #socket: Socket;
  readonly #reader: ByteReader;
  readonly #served: NbdExport;
  readonly #disk: DiskPart;
  readonly #limits: NbdConnectionLimits;
  readonly #log: Logger;
  readonly #sums: ReturnType<IoCounters["ofDisk"]> | undefined;
  readonly #greeting: ClientGreeting | undefined;
  readonly #running = new Set<Promise<void>>();
  #draining = false;

  constructor(options: {
    socket: Socket;
    served: NbdExport;
    disk: DiskPart;
    limits: NbdConnectionLimits;
    log: Logger;
    /** Counters of the requests; undefined counts none. */
    io?: IoCounters;
    /** Greeting of a client that has already greeted, before TLS. */
    greeting?: ClientGreeting;
  }) {
    this.#socket = options.socket;
    this.#reader = new ByteReader(options.socket);
    this.#served = options.served;
    this.#disk = options.disk;
    this.#limits = options.limits;
    this.#log = options.log;
    this.#sums = options.io?.ofDisk(options.served.name);
    this.#greeting = options.greeting;
  }

  /** Serves until the connection ends, and resolves then. A client's errors end only its own connection. */
  async run(): Promise<void> {
    const tooLate = setTimeout(
      () => this.#socket.destroy(new Error("negotiation took too long")),
      this.#limits.negotiationTimeoutMs,
    );
    try {
      const greeting = this.#greeting ?? (await greetClient(this.#reader, this.#socket));
      if (await negotiate(this.#reader, this.#socket, this.#served, greeting)) {
        clearTimeout(tooLate);
        await this.#transmit();
      }
    } catch (error) {
      if (!(error instanceof ConnectionEndedError) && !this.#draining)
        this.#log.warn({ diskId: this.#served.name, error: messageOf(error) }, "NBD connection aborted");
    } finally {
      clearTimeout(tooLate);
      await Promise.all(this.#running);
      // Closes after pending replies were sent; `close` cuts off a client that does not read them.
      this.#socket.end(() => this.#socket.destroy());
    }
  }

  /** Accepts no more requests, and waits until the running ones are answered. */
  async drain(): Promise<void> {
    this.#draining = true;
    await Promise.all(this.#running);
  }

  close(): void {
    this.#draining = true;
    this.#socket.destroy();
  }

  async #transmit(): Promise<void> {
    const requests = new Slots(this.#limits.maxInFlightRequests);
    let inFlightBytes = 0;
    for (;;) {
      // Acquires a request slot before reading the data, so that the socket throttles a client that is faster than the
      // disk.
      const releaseRequest = await requests.acquire();
      const request = decodeRequest(await this.#reader.read(REQUEST_BYTES));
      if (request.command === COMMAND.DISC) return;
      const hasPayload = request.command === COMMAND.WRITE;
      if (hasPayload && request.lengthBytes > MAX_REQUEST_BYTES)
        throw new Error(`a write of ${request.lengthBytes} bytes is above the limit of ${MAX_REQUEST_BYTES}`);
      const sizeBytes = carriesData(request) ? Math.min(request.lengthBytes, MAX_REQUEST_BYTES) : 0;
      while (inFlightBytes > 0 && inFlightBytes + sizeBytes > this.#limits.maxInFlightBytes)
        await Promise.race(this.#running);
      inFlightBytes += sizeBytes;
      const payload = hasPayload ? await this.#reader.read(request.lengthBytes) : undefined;
      if (this.#draining) return;
      const running = this.#answer(request, payload).finally(() => {
        this.#running.delete(running);
        inFlightBytes -= sizeBytes;
        releaseRequest();
      });
      this.#running.add(running);
    }
  }

  async #answer(request: NbdRequest, payload: Buffer | undefined): Promise<void> {
    let data: Uint8Array | undefined;
    let error = this.#refusal(request);
    if (error === 0) {
      const startedMs = performance.now();
      try {
        data = await this.#perform(request, payload);
      } catch (thrown) {
        error = nbdErrorOf(thrown);
        // A request whose connection has ended is nobody's failure: its client sends it again.
        if (!this.#socket.destroyed)
          this.#log.warn({ diskId: this.#served.name, error: messageOf(thrown) }, "NBD request failed");
      }
      const durationMs = performance.now() - startedMs;
      const operation = OPERATIONS.get(request.command) ?? "flush";
      if (this.#sums)
        countIo(this.#sums, operation, { sizeBytes: request.lengthBytes, durationMs, failed: error !== 0 });
    }
    await this.#send(encodeSimpleReply(request.cookie, error), data);
  }

  /** Returns the NBD error that refuses the request; 0 when it may run. */
  #refusal(request: NbdRequest): number {
    const { command } = request;
    const operation = OPERATIONS.get(command);
    if (operation === undefined) return NBD_ERROR.EINVAL;
    if (this.#served.isReadOnly && operation !== "read" && operation !== "flush") return NBD_ERROR.EPERM;
    // Clients may set FUA on any command once the server offers it. FUA has no effect on commands that write nothing.
    const flags = command === COMMAND.WRITE_ZEROES ? COMMAND_FLAG.FUA | COMMAND_FLAG.NO_HOLE : COMMAND_FLAG.FUA;
    if ((request.flags & ~flags) !== 0) return NBD_ERROR.EINVAL;
    if (operation === "flush") return 0;
    if (carriesData(request) && request.lengthBytes > MAX_REQUEST_BYTES) return NBD_ERROR.EOVERFLOW;
    const end = request.offsetBytes + BigInt(request.lengthBytes);
    if (end <= BigInt(this.#served.sizeBytes)) return 0;
    return command === COMMAND.WRITE || command === COMMAND.WRITE_ZEROES ? NBD_ERROR.ENOSPC : NBD_ERROR.EINVAL;
  }

  async #perform(request: NbdRequest, payload: Buffer | undefined): Promise<Uint8Array | undefined> {
    const offsetBytes = Number(request.offsetBytes);
    const { lengthBytes } = request;
    const fua = (request.flags & COMMAND_FLAG.FUA) !== 0;
    const keepSpace = (request.flags & COMMAND_FLAG.NO_HOLE) !== 0;
    switch (request.command) {
      case COMMAND.READ:
        return this.#disk.read(offsetBytes, lengthBytes);
      case COMMAND.WRITE:
        await this.#disk.write(offsetBytes, payload ?? Buffer.alloc(0), fua);
        return undefined;
      case COMMAND.TRIM:
        await this.#disk.clear(offsetBytes, lengthBytes, { kind: "discard", fua });
        return undefined;
      case COMMAND.WRITE_ZEROES:
        await this.#disk.clear(offsetBytes, lengthBytes, { kind: keepSpace ? "write zeros" : "zero", fua });
        return undefined;
      default:
        await this.#disk.flush();
        return undefined;
    }
  }

  /** Resolves once the kernel has taken the reply. That bounds the replies queued for a client that does not read. */
  async #send(header: Buffer, data: Uint8Array | undefined): Promise<void> {
    if (this.#socket.destroyed) return;
    await new Promise<void>((resolve) => {
      // Both parts are queued in one turn of the event loop, so that no other reply comes between them.
      if (data === undefined) this.#socket.write(header, () => resolve());
      else {
        this.#socket.cork();
        this.#socket.write(header);
        this.#socket.write(data, () => resolve());
        this.#socket.uncork();
      }
    });
  }
}

/** Operations of requests by command; any other command is refused. */
const OPERATIONS: ReadonlyMap<number, IoOperation> = new Map([
  [COMMAND.READ, "read"],
  [COMMAND.WRITE, "write"],
  [COMMAND.FLUSH, "flush"],
  [COMMAND.TRIM, "discard"],
  [COMMAND.WRITE_ZEROES, "zero"],
]);

/** Returns whether the request or its reply contains the bytes of the range. MAX_REQUEST_BYTES limits these bytes. */
function carriesData({ command }: NbdRequest): boolean {
  return command === COMMAND.READ || command === COMMAND.WRITE;
}

/** Returns the NBD error number of an error. */
function nbdErrorOf(error: unknown): number {
  if (error instanceof OutdatedError) return NBD_ERROR.ESHUTDOWN;
  if (error instanceof InvalidArgumentError) return NBD_ERROR.EINVAL;
  const code = error instanceof DeviceIoError ? (error.cause as NodeJS.ErrnoException | undefined)?.code : undefined;
  return code === "ENOSPC" ? NBD_ERROR.ENOSPC : NBD_ERROR.EIO;
}
