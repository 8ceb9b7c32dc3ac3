import type { DeviceId } from "@diskmesh/domain";
import type { Device } from "../devices/device.js";
import type { Segment } from "../model/mapped-devices.js";

/** Bytes of a block device of the kernel that are a part of a disk. */
export interface TakenPart {
  readonly segment: Segment;
  /** Subsystem at another host. A part of another subsystem has lost what that host's machine had not flushed. */
  readonly nqn?: string | undefined;
}

/** A part of a disk of the engine kernel. It begins behind the record of its run. */
export interface KernelPart {
  readonly deviceId: DeviceId;
  /** Makes its bytes a block device of this host, for a disk's device. Throws as `checkAccess` does. */
  take(): Promise<TakenPart>;
  /** Returns the block device of a former life; undefined without one. */
  find(): Promise<TakenPart | undefined>;
  /** Notes that the disk's device of a former life lies on the part. */
  noteTaken(): void;
  /** Returns why the disk must no longer have the part; undefined when it may. */
  refusal(): string | undefined;
  /** Returns why the block device of the part does no I/O now; undefined when it does. */
  problem(): Promise<string | undefined>;
  /** Ends what only this part of its disk has used. Absent for a part whose end the device's host decides alone. */
  leave?(): Promise<void>;
  /** Ends the part. Resolves once no I/O of the session can begin there, and none is left that this host knows of. */
  end(): Promise<void>;
}

/** A part on a device of this host: a piece of the session's leg. */
export class LocalKernelPart implements KernelPart {
  readonly #device: Device;
  readonly #sessionNumber: number;
  readonly #bytes: { readonly offsetBytes: number; readonly sizeBytes: number };

  constructor(
    device: Device,
    sessionNumber: number,
    bytes: { readonly offsetBytes: number; readonly sizeBytes: number },
  ) {
    this.#device = device;
    this.#sessionNumber = sessionNumber;
    this.#bytes = bytes;
  }

  get deviceId(): DeviceId {
    return this.#device.id;
  }

  async take(): Promise<TakenPart> {
    const device = this.#device;
    device.checkAccess(this.#sessionNumber, this.#bytes.offsetBytes);
    const run = device.granted.at(this.#bytes.offsetBytes);
    const { guard } = device.file.handle ?? {};
    if (run === undefined || guard === undefined) throw new Error(`device ${device.id} has no guard`);
    return { segment: await device.legs.take({ sessionNumber: this.#sessionNumber, run, guard }, this.#bytes) };
  }

  async find(): Promise<TakenPart | undefined> {
    const segment = await this.#device.legs.find(this.#sessionNumber, this.#bytes);
    return segment && { segment };
  }

  noteTaken(): void {
    this.#device.legs.noteTaken(this.#sessionNumber, this.#bytes.offsetBytes);
  }

  refusal(): string | undefined {
    return this.#device.refusalOf(this.#sessionNumber, this.#bytes.offsetBytes);
  }

  async problem(): Promise<undefined> {}

  end(): Promise<void> {
    return this.#device.legs.end(this.#sessionNumber, this.#bytes.offsetBytes);
  }
}
