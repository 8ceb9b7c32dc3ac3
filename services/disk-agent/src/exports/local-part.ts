import type { Device } from "../devices/device.js";
import type { DiskPart } from "./disk-part.js";

/** A device of this host, used directly. */
export class LocalPart implements DiskPart {
  readonly #device: Device;
  readonly #sessionNumber: number;

  constructor(device: Device, sessionNumber: number) {
    this.#device = device;
    this.#sessionNumber = sessionNumber;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#device.read(this.#sessionNumber, offsetBytes, lengthBytes);
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.#device.write(this.#sessionNumber, offsetBytes, data, { fua });
  }

  flush(): Promise<void> {
    return this.#device.flush(this.#sessionNumber);
  }

  close(): void {}
}
