import type { ClearOptions } from "../files/file-bytes.js";
import { linkOf, placeOf } from "../model/exports.js";
import type { ExportDevice } from "../model/memory.js";
import type { DiskPart } from "./disk-part.js";

interface SharedRun {
  readonly part: DiskPart;
  users: number;
}

/**
 * Opens each run of a disk once, however many parts it was split into: another host has one connection of a session to a
 * run, so that a write of a former connection never lands late. The last part to close its run closes the run.
 */
export class SharedRuns {
  readonly #open: (device: ExportDevice) => DiskPart;
  readonly #runs = new Map<string, SharedRun>();

  constructor(open: (device: ExportDevice) => DiskPart) {
    this.#open = open;
  }

  open(device: ExportDevice): DiskPart {
    const { skipBytes = 0, ...rest } = device;
    const link = linkOf(device);
    const name = `${placeOf(link)} ${device.sessionNumber}`;
    const run = this.#runs.get(name) ?? { part: this.#open({ ...rest, ...link }), users: 0 };
    this.#runs.set(name, run);
    run.users++;
    return new PartOfRun(run.part, skipBytes, () => {
      if (--run.users > 0) return;
      this.#runs.delete(name);
      run.part.close();
    });
  }
}

/** Bytes of a run from an offset on. Requests without an answer go on after the close, for as long as others use the run. */
class PartOfRun implements DiskPart {
  #isClosed = false;

  constructor(
    private readonly run: DiskPart,
    private readonly startBytes: number,
    private readonly onClose: () => void,
  ) {}

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.run.read(this.startBytes + offsetBytes, lengthBytes);
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.run.write(this.startBytes + offsetBytes, data, fua);
  }

  clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    return this.run.clear(this.startBytes + offsetBytes, lengthBytes, options);
  }

  flush(): Promise<void> {
    return this.run.flush();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onClose();
  }
}
