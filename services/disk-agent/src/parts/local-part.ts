import { UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import { type ClearOptions, clearChunks } from "../files/file-bytes.js";
import type { DiskPart } from "./disk-part.js";

/** Dependencies and timeout of the wait for a device that is currently unusable. */
export interface LocalWaiting {
  readonly devices: Pick<DeviceTable, "until" | "changes">;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly timeoutMs: number;
}

/** Part on a run of a device of this host. I/O waits while the device is unusable, as it does for another host's device. */
export class LocalPart implements DiskPart {
  readonly #device: Device;
  readonly #sessionNumber: number;
  /** Start of the run. */
  readonly #startBytes: number;
  readonly #waiting: LocalWaiting;
  #closed = false;

  constructor(
    device: Device,
    { sessionNumber, offsetBytes }: { readonly sessionNumber: number; readonly offsetBytes: number },
    waiting: LocalWaiting,
  ) {
    this.#device = device;
    this.#sessionNumber = sessionNumber;
    this.#startBytes = offsetBytes;
    this.#waiting = waiting;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#tried(() => this.#device.read(this.#sessionNumber, this.#startBytes + offsetBytes, lengthBytes));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.#tried(() => this.#device.write(this.#sessionNumber, this.#startBytes + offsetBytes, data, { fua }));
  }

  async clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    for (const chunk of clearChunks(this.#startBytes + offsetBytes, lengthBytes))
      await this.#tried(() => this.#device.clear(this.#sessionNumber, chunk, options));
  }

  flush(): Promise<void> {
    return this.#tried(() => this.#device.flush(this.#sessionNumber, this.#startBytes));
  }

  close(): void {
    this.#closed = true;
    this.#waiting.devices.changes.touch();
  }

  /**
   * Retries I/O that failed with UnavailableError, which is thrown before the system call, so that a retry writes
   * nothing twice.
   */
  async #tried<T>(io: () => Promise<T>): Promise<T> {
    const { devices, clock, timeoutMs } = this.#waiting;
    const deadlineAtMs = clock.monotonicMs() + timeoutMs;
    for (;;)
      try {
        return await io();
      } catch (error) {
        const leftMs = deadlineAtMs - clock.monotonicMs();
        if (!(error instanceof UnavailableError) || this.#closed || leftMs <= 0) throw error;
        await devices.until(() => (this.#closed || !this.#isUnavailable() ? true : undefined), leftMs);
      }
  }

  #isUnavailable(): boolean {
    try {
      this.#device.checkAccess(this.#sessionNumber, this.#startBytes);
      return false;
    } catch (error) {
      return error instanceof UnavailableError;
    }
  }
}
