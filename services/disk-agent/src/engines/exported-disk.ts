import type { ClearOptions } from "../files/file-bytes.js";
import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import { type CopiedTarget, MovablePart, type MovablePartOptions } from "../mirror/movable-part.js";
import { piecesFrom } from "../model/exports.js";
import { type IoQueue, queueOfRequests } from "../model/io-queue.js";
import type { ExportDevice, ExportExtent, ExportSpec } from "../model/memory.js";
import type { NbdExport } from "../nbd/handshake.js";
import type { DiskPart } from "../parts/disk-part.js";
import { IoLimiter } from "../parts/io-limiter.js";
import { LinearDisk } from "../parts/linear-disk.js";
import { OpenRequests } from "../parts/open-requests.js";
import { SharedRuns } from "../parts/shared-runs.js";
import { WatchedPart } from "../parts/watched-part.js";

/** A disk as the NBD server reads and writes it: within its limits, both of which change while it is served. */
export class ExportedDisk implements DiskPart {
  readonly #limiter: IoLimiter;
  readonly #options: Omit<MovablePartOptions, "diskId">;
  readonly #requests: OpenRequests;
  readonly #watched = new Set<WatchedPart>();
  #spec: ExportSpec;
  #parts: readonly MovablePart[];
  #disk: LinearDisk;

  constructor(spec: ExportSpec, options: Omit<MovablePartOptions, "diskId">) {
    this.#spec = spec;
    const runs = new SharedRuns((device) => this.#watch(device, options));
    this.#options = { ...options, open: (device) => runs.open({ sessionNumber: spec.sessionNumber, ...device }) };
    this.#requests = new OpenRequests(options.clock);
    this.#limiter = new IoLimiter(options.clock, spec.limits);
    this.#parts = spec.extents.map((extent) => this.#open(extent));
    this.#disk = new LinearDisk(this.#parts);
  }

  /** Describes the disk to the clients that connect now. */
  get served(): NbdExport {
    const { diskId: name, blockSizeBytes, readOnly = false } = this.#spec;
    const disk = this;
    return {
      name,
      blockSizeBytes,
      isReadOnly: readOnly,
      get sizeBytes() {
        return disk.#disk.sizeBytes;
      },
    };
  }

  /** Takes over the limits and the extents of a later revision. */
  change(spec: ExportSpec): void {
    this.#spec = spec;
    this.#limiter.set(spec.limits);
    let next = 0;
    const parts = this.#parts.flatMap((part) => {
      const pieces = piecesFrom(spec.extents, next, part.sizeBytes);
      next += pieces.length;
      return part.changeInto(pieces);
    });
    this.#parts = [...parts, ...spec.extents.slice(next).map((extent) => this.#open(extent))];
    this.#disk = new LinearDisk(this.#parts);
  }

  askMirror(mirrored: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    for (const part of this.#parts) {
      const status = part.askMirror(mirrored, bytesPerSecond);
      if (status !== undefined) return status;
    }
    return undefined;
  }

  /** Lifts the limits, so that delayed operations do not hold up the end of the export. */
  release(): void {
    this.#limiter.set(undefined);
    for (const part of this.#parts) part.release();
  }

  /** Ends the changes of the parts that move. */
  async sealMoves(): Promise<readonly CopiedTarget[]> {
    return (await Promise.all(this.#parts.map((part) => part.seal()))).flat();
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    const admitted = this.#limiter.admit("read", lengthBytes);
    return this.#requests.during(admitted, () => this.#disk.read(offsetBytes, lengthBytes));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    const admitted = this.#limiter.admit("write", data.length);
    return this.#requests.during(admitted, () => this.#disk.write(offsetBytes, data, fua));
  }

  clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    const admitted = this.#limiter.admit("write", 0);
    return this.#requests.during(admitted, () => this.#disk.clear(offsetBytes, lengthBytes, options));
  }

  flush(): Promise<void> {
    return this.#requests.during(undefined, () => this.#disk.flush());
  }

  queue(nowMs: number): IoQueue {
    return queueOfRequests({ ...this.#requests.now, throttledCount: this.#limiter.waiting }, this.#watched, nowMs);
  }

  close(): void {
    this.#disk.close();
  }

  #watch(device: ExportDevice, { open, clock }: Pick<MovablePartOptions, "open" | "clock">): DiskPart {
    const part = new WatchedPart(device.deviceId, open(device), clock, () => this.#watched.delete(part));
    this.#watched.add(part);
    return part;
  }

  #open(extent: ExportExtent): MovablePart {
    return new MovablePart(extent, { diskId: this.#spec.diskId, ...this.#options });
  }
}
