import {
  type BackoffLimits,
  backoffMs,
  type DeviceId,
  DeviceIoError,
  type DiskId,
  type DomainError,
  type Logger,
  messageOf,
  OutdatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { type Clock, Slots } from "@diskmesh/service";
import { type ClearOptions, clearChunks } from "../files/file-bytes.js";
import type { DiskPart } from "../parts/disk-part.js";
import { joined, settled } from "../parts/pieces.js";
import { type DeviceLink, LinkLostError } from "./device-link.js";

interface RemotePartLimits {
  /** Timeout of an operation in ms, including all reconnections. */
  readonly operationTimeoutMs: number;
  readonly maxInFlight: number;
  /** Maximum bytes of a read or write in one request. */
  readonly chunkBytes: number;
  readonly reconnect: BackoffLimits;
}

interface RemotePartOptions {
  /**
   * Connects to the device, with the address and the key that the registry gave last. Throws OutdatedError when the
   * device's agent refuses the session.
   */
  readonly connect: (signal: AbortSignal) => Promise<DeviceLink>;
  readonly diskId: DiskId;
  readonly deviceId: DeviceId;
  readonly sessionNumber: number;
  readonly limits: RemotePartLimits;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

type Operation = (link: DeviceLink) => Promise<Uint8Array | undefined>;

interface PendingOperation {
  readonly operation: Operation;
  /** Link on which the operation was sent last; undefined while none is open. */
  sentOn: DeviceLink | undefined;
  resolve(data: Uint8Array | undefined): void;
  reject(error: unknown): void;
}

/**
 * Device of another host, over one link that is opened again when it breaks. After a break, operations without an
 * answer are sent again on the new link. The other agent opens a link only after all operations of the former one have
 * ended, so no earlier copy of a write can land after a later write.
 */
export class RemotePart implements DiskPart {
  readonly #options: RemotePartOptions;
  readonly #slots: Slots;
  /** Unanswered operations, the oldest first. */
  readonly #pending = new Set<PendingOperation>();
  readonly #closed = new AbortController();
  #running = false;
  #link: DeviceLink | undefined;
  /** Final error of the part; from then on every operation fails with it. */
  #ended: DomainError | undefined;
  #machineBootId = "";
  #acknowledgedWrites = 0;
  #flushedWrites = 0;
  #lostWrites = false;

  constructor(options: RemotePartOptions) {
    this.#options = options;
    this.#slots = new Slots(options.limits.maxInFlight);
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    const { chunkBytes } = this.#options.limits;
    const reads: Promise<Uint8Array>[] = [];
    for (let done = 0; done < lengthBytes; done += chunkBytes) {
      const length = Math.min(chunkBytes, lengthBytes - done);
      const read = this.#submit((link) => link.read(offsetBytes + done, length));
      reads.push(read.then((data) => data ?? Buffer.alloc(0)));
    }
    return joined(reads);
  }

  async write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    const { chunkBytes } = this.#options.limits;
    const writes: Promise<unknown>[] = [];
    for (let done = 0; done < data.length; done += chunkBytes) {
      const chunk = data.subarray(done, done + chunkBytes);
      writes.push(this.#submit(async (link) => void (await link.write(offsetBytes + done, chunk, fua))));
    }
    await settled(writes);
    if (!fua) this.#acknowledgedWrites += 1;
  }

  async clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    for (const { startBytes, sizeBytes } of clearChunks(offsetBytes, lengthBytes))
      await this.#submit(async (link) => void (await link.clear(startBytes, sizeBytes, options)));
    if (!options.fua) this.#acknowledgedWrites += 1;
  }

  async flush(): Promise<void> {
    const covered = this.#acknowledgedWrites;
    await this.#submit(async (link) => void (await link.flush()));
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
  }

  async #submit(operation: Operation): Promise<Uint8Array | undefined> {
    const { clock, limits } = this.#options;
    const release = await this.#slots.acquire();
    let cancel = (): void => {};
    try {
      if (this.#ended) throw this.#ended;
      return await new Promise((resolve, reject) => {
        const pending = { operation, sentOn: undefined, resolve, reject };
        this.#pending.add(pending);
        cancel = clock.after(limits.operationTimeoutMs, () => this.#giveUp(pending));
        if (this.#link) this.#send(pending, this.#link);
        void this.#run();
      });
    } finally {
      cancel();
      release();
    }
  }

  /** Fails an operation whose timeout has passed. */
  #giveUp(pending: PendingOperation): void {
    if (!this.#pending.delete(pending)) return;
    const { deviceId, limits } = this.#options;
    pending.reject(
      new UnavailableError(`device ${deviceId} did not answer within ${limits.operationTimeoutMs} ms`, {
        outcome: "unknown",
      }),
    );
    // Ends the link, because the other agent may still execute the operation. It opens the next link only after the
    // operation has ended.
    pending.sentOn?.close();
  }

  #send(pending: PendingOperation, link: DeviceLink): void {
    pending.sentOn = link;
    pending.operation(link).then(
      (data) => this.#settle(pending, link, () => pending.resolve(data)),
      (error: unknown) => {
        if (error instanceof LinkLostError) return;
        this.#settle(pending, link, () => pending.reject(error));
        if (error instanceof OutdatedError) this.#end(error);
      },
    );
  }

  /** Settles an operation. Ignores an answer of a former link, because the operation was sent again. */
  #settle(pending: PendingOperation, link: DeviceLink, settle: () => void): void {
    if (pending.sentOn === link && this.#pending.delete(pending)) settle();
  }

  /** Opens the link at the first operation, and opens it again until the part ends. */
  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    const { clock, random, limits, deviceId, sessionNumber, log } = this.#options;
    for (let attempts = 0; !this.#ended; attempts += 1) {
      try {
        await this.#runLink(() => {
          attempts = 0;
        });
      } catch (error) {
        if (this.#closed.signal.aborted) return;
        log.warn({ deviceId, sessionNumber, error: messageOf(error) }, "connection to the device failed");
        if (error instanceof OutdatedError) {
          // Nothing authenticates a refusal in the handshake, so the next operation asks again.
          this.#fail(error);
          break;
        }
      }
      await clock.sleep(backoffMs(attempts, limits.reconnect, random()), this.#closed.signal).catch(() => undefined);
    }
    this.#running = false;
  }

  async #runLink(onOpened: () => void): Promise<void> {
    const link = await this.#options.connect(this.#closed.signal);
    try {
      onOpened();
      this.#noteMachine(link.machineBootId);
      if (this.#ended) return;
      this.#link = link;
      for (const pending of this.#pending) this.#send(pending, link);
      await link.ended;
    } finally {
      this.#link = undefined;
      link.close();
      for (const pending of this.#pending) pending.sentOn = undefined;
    }
  }

  #noteMachine(machineBootId: string): void {
    if (this.#machineBootId !== "" && this.#machineBootId !== machineBootId)
      this.#lostWrites ||= this.#acknowledgedWrites > this.#flushedWrites;
    this.#machineBootId = machineBootId;
  }

  #end(error: DomainError): void {
    this.#ended ??= error;
    this.#fail(error);
    this.#link?.close();
  }

  #fail(error: DomainError): void {
    for (const pending of this.#pending) pending.reject(error);
    this.#pending.clear();
  }
}
