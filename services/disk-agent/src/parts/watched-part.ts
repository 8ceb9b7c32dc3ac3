import type { DeviceId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { ClearOptions } from "../files/file-bytes.js";
import type { OpenSince } from "../model/io-queue.js";
import type { DiskPart } from "./disk-part.js";
import { OpenRequests } from "./open-requests.js";

/** A part that knows which of its requests the device has not answered. */
export class WatchedPart implements DiskPart, OpenSince {
  readonly #requests: OpenRequests;

  constructor(
    readonly deviceId: DeviceId,
    private readonly part: DiskPart,
    clock: Pick<Clock, "monotonicMs">,
    private readonly onClose: () => void,
  ) {
    this.#requests = new OpenRequests(clock);
  }

  get count(): number {
    return this.#requests.now.count;
  }

  get oldestSinceMs(): number | undefined {
    return this.#requests.now.oldestSinceMs;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#requests.during(undefined, () => this.part.read(offsetBytes, lengthBytes));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.#requests.during(undefined, () => this.part.write(offsetBytes, data, fua));
  }

  clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    return this.#requests.during(undefined, () => this.part.clear(offsetBytes, lengthBytes, options));
  }

  flush(): Promise<void> {
    return this.#requests.during(undefined, () => this.part.flush());
  }

  close(): void {
    this.onClose();
    this.part.close();
  }
}
