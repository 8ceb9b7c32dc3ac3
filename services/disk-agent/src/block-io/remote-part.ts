import type { BlockIoRequest, BlockIoResponse, DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import {
  type BackoffLimits,
  backoffMs,
  type DeviceId,
  DeviceIoError,
  type DiskId,
  type DomainError,
  InvalidArgumentError,
  type Logger,
  messageOf,
  NotFoundError,
  OutdatedError,
  PermissionDeniedError,
  UnavailableError,
} from "@diskmesh/domain";
import type { Client, PartialOf } from "@diskmesh/rpc";
import { type Clock, EitherSignal, Slots } from "@diskmesh/service";
import { type ClearOptions, clearChunks } from "../devices/file-bytes.js";
import type { DiskPart } from "../exports/disk-part.js";
import { AsyncQueue } from "./async-queue.js";
import { encodeClearKind } from "./clear-kind.js";
import { errorOfErrno } from "./errno.js";

interface RemotePartLimits {
  /** Timeout of an operation in ms, including all reconnections. */
  readonly operationTimeoutMs: number;
  readonly maxInFlight: number;
  /** Maximum bytes of a read or write in one message. */
  readonly chunkBytes: number;
  readonly reconnect: BackoffLimits;
}

export type RemoteAgent = Pick<Client<typeof DiskAgentServiceDefinition>, "blockIo" | "close">;

interface RemotePartOptions {
  /**
   * Connects to the other agent. Called with the first operation, because loading the keys costs more than the rest of
   * an export's start.
   */
  readonly connect: () => RemoteAgent;
  readonly diskId: DiskId;
  readonly deviceId: DeviceId;
  readonly sessionNumber: number;
  readonly limits: RemotePartLimits;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

type Request = PartialOf<typeof BlockIoRequest>;
type Operation = Exclude<NonNullable<Request["operation"]>, { $case: "open" }>;

interface PendingOperation {
  readonly id: number;
  readonly operation: Operation;
  readonly deadlineAtMs: number;
  sent: boolean;
  resolve(data: Uint8Array): void;
  reject(error: unknown): void;
}

/**
 * Device of another host, over one BlockIo stream that is reopened when it breaks. After a break, operations without an
 * answer are sent again once the opening of the new stream was answered. The other agent answers an opening only after
 * all operations of the former stream have ended, so no earlier copy of a write can land after a later write.
 */
export class RemotePart implements DiskPart {
  readonly #options: RemotePartOptions;
  readonly #slots: Slots;
  readonly #pending = new Map<number, PendingOperation>();
  readonly #closed = new AbortController();
  #lastId = 0;
  #running = false;
  #sweeping = false;
  #outgoing: AsyncQueue<Request> | undefined;
  #stream: AbortController | undefined;
  /** Final error of the stream; from then on every operation fails with it. */
  #ended: DomainError | undefined;
  #agent: RemoteAgent | undefined;
  #machineBootId = "";
  #acknowledgedWrites = 0;
  #flushedWrites = 0;
  #lostWrites = false;

  constructor(options: RemotePartOptions) {
    this.#options = options;
    this.#slots = new Slots(options.limits.maxInFlight);
  }

  async read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    const { chunkBytes } = this.#options.limits;
    const reads: Promise<Uint8Array>[] = [];
    for (let done = 0; done < lengthBytes; done += chunkBytes) {
      const value = { offsetBytes: offsetBytes + done, lengthBytes: Math.min(chunkBytes, lengthBytes - done) };
      reads.push(this.#submit({ $case: "read", value }));
    }
    const chunks = await Promise.all(reads);
    const [only] = chunks;
    return chunks.length === 1 && only ? only : Buffer.concat(chunks);
  }

  async write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    const { chunkBytes } = this.#options.limits;
    const writes: Promise<unknown>[] = [];
    for (let done = 0; done < data.length; done += chunkBytes) {
      const chunk = Buffer.from(data.subarray(done, done + chunkBytes));
      writes.push(this.#submit({ $case: "write", value: { offsetBytes: offsetBytes + done, data: chunk, fua } }));
    }
    // Waits for all writes before answering, even after an error, because an NBD client may reuse the range after the
    // answer.
    const results = await Promise.allSettled(writes);
    const failed = results.find((result) => result.status === "rejected");
    if (failed) throw failed.reason;
    if (!fua) this.#acknowledgedWrites += 1;
  }

  async clear(offsetBytes: number, lengthBytes: number, { kind, fua }: ClearOptions): Promise<void> {
    const value = { fua, kind: encodeClearKind(kind) };
    for (const { startBytes, sizeBytes } of clearChunks(offsetBytes, lengthBytes))
      await this.#submit({ $case: "clear", value: { ...value, offsetBytes: startBytes, lengthBytes: sizeBytes } });
    if (!fua) this.#acknowledgedWrites += 1;
  }

  async flush(): Promise<void> {
    const covered = this.#acknowledgedWrites;
    await this.#submit({ $case: "flush", value: {} });
    // Fails this and every later flush once the other machine has restarted with unflushed writes, because a flush
    // after the restart does not cover them.
    if (this.#lostWrites)
      throw new DeviceIoError(
        `the machine of device ${this.#options.deviceId} restarted, so acknowledged writes that were not flushed may be lost`,
      );
    this.#flushedWrites = Math.max(this.#flushedWrites, covered);
  }

  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.#end(new UnavailableError(`the export of disk ${this.#options.diskId} has ended`));
    this.#agent?.close();
  }

  async #submit(operation: Operation): Promise<Uint8Array> {
    const release = await this.#slots.acquire();
    try {
      if (this.#ended) throw this.#ended;
      return await new Promise<Uint8Array>((resolve, reject) => {
        this.#lastId += 1;
        const deadlineAtMs = this.#options.clock.monotonicMs() + this.#options.limits.operationTimeoutMs;
        const pending = { id: this.#lastId, operation, deadlineAtMs, sent: false, resolve, reject };
        this.#pending.set(pending.id, pending);
        this.#send(pending);
        void this.#run();
        void this.#sweep();
      });
    } finally {
      release();
    }
  }

  #send(pending: PendingOperation): void {
    if (!this.#outgoing) return;
    pending.sent = true;
    void this.#outgoing.push({ operationId: pending.id, operation: pending.operation });
  }

  /** Opens the stream at the first operation, and reopens it until the part ends. */
  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    const { clock, random, limits, deviceId, sessionNumber, log } = this.#options;
    for (let attempts = 0; !this.#ended; attempts += 1) {
      try {
        await this.#runStream(() => {
          attempts = 0;
        });
      } catch (error) {
        if (this.#closed.signal.aborted) return;
        log.warn({ deviceId, sessionNumber, error: messageOf(error) }, "block I/O stream lost");
        if (isFinal(error)) return this.#end(error);
      }
      await clock.sleep(backoffMs(attempts, limits.reconnect, random()), this.#closed.signal).catch(() => undefined);
    }
  }

  async #runStream(onOpened: () => void): Promise<void> {
    const { diskId, deviceId, sessionNumber } = this.#options;
    const agent = this.#connected();
    const stream = new AbortController();
    const outgoing = new AsyncQueue<Request>();
    this.#stream = stream;
    using ended = new EitherSignal(stream.signal, this.#closed.signal);
    try {
      void outgoing.push({ operationId: 0, operation: { $case: "open", value: { diskId, deviceId, sessionNumber } } });
      for await (const answer of agent.blockIo(outgoing, { signal: ended.signal })) {
        if (this.#outgoing) this.#settle(answer);
        else {
          onOpened();
          this.#noteMachine(Buffer.from(answer.data).toString());
          this.#outgoing = outgoing;
          for (const pending of this.#pending.values()) this.#send(pending);
        }
      }
    } finally {
      this.#outgoing = undefined;
      this.#stream = undefined;
      outgoing.end();
      stream.abort();
      for (const pending of this.#pending.values()) pending.sent = false;
    }
  }

  #connected(): RemoteAgent {
    try {
      this.#agent ??= this.#options.connect();
      return this.#agent;
    } catch (error) {
      // Throws a retryable error, because unreadable key files may be in the middle of a renewal. The next try reads
      // them again.
      throw new UnavailableError(`cannot connect to the agent of the device: ${messageOf(error)}`, { cause: error });
    }
  }

  #settle(answer: BlockIoResponse): void {
    const pending = this.#pending.get(answer.operationId);
    if (!pending) return;
    this.#pending.delete(answer.operationId);
    if (answer.errno === "") {
      pending.resolve(answer.data);
      return;
    }
    const error = errorOfErrno(answer.errno, answer.message);
    pending.reject(error);
    if (answer.errno === "ESTALE") this.#end(error);
  }

  #noteMachine(machineBootId: string): void {
    if (this.#machineBootId !== "" && this.#machineBootId !== machineBootId)
      this.#lostWrites ||= this.#acknowledgedWrites > this.#flushedWrites;
    this.#machineBootId = machineBootId;
  }

  /** Fails operations whose timeout has passed. Runs while any operation is pending. */
  async #sweep(): Promise<void> {
    if (this.#sweeping) return;
    this.#sweeping = true;
    const { clock, deviceId, limits } = this.#options;
    for (let oldest = this.#oldest(); oldest && !this.#ended; oldest = this.#oldest()) {
      const waitMs = oldest.deadlineAtMs - clock.monotonicMs();
      if (waitMs > 0) {
        await clock.sleep(waitMs, this.#closed.signal).catch(() => undefined);
        continue;
      }
      this.#pending.delete(oldest.id);
      oldest.reject(
        new UnavailableError(`device ${deviceId} did not answer within ${limits.operationTimeoutMs} ms`, {
          outcome: "unknown",
        }),
      );
      // Breaks the stream, because the other agent may still execute the operation. It answers the opening of the next
      // stream only after the operation has ended.
      if (oldest.sent) this.#stream?.abort();
    }
    this.#sweeping = false;
  }

  #oldest(): PendingOperation | undefined {
    for (const pending of this.#pending.values()) return pending;
    return undefined;
  }

  #end(error: DomainError): void {
    this.#ended ??= error;
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
    this.#stream?.abort();
  }
}

/**
 * Returns whether the error is final: the session was superseded, or a retry cannot succeed. Other errors may come from
 * a broken connection and are retried.
 */
function isFinal(error: unknown): error is DomainError {
  return [OutdatedError, PermissionDeniedError, NotFoundError, InvalidArgumentError].some(
    (kind) => error instanceof kind,
  );
}
