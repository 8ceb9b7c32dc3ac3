import type { ClearOptions } from "../files/file-bytes.js";
import type { DiskPart } from "./disk-part.js";
import { joined, settled } from "./pieces.js";

interface Placed {
  readonly startBytes: number;
  /** Size as of now: a part may grow, for a later disk. */
  readonly sizeBytes: number;
  readonly part: DiskPart;
}

/** A disk that consists of consecutive parts. Callers must stay within `sizeBytes`. */
export class LinearDisk implements DiskPart {
  readonly sizeBytes: number;
  readonly #placed: readonly Placed[];

  constructor(parts: readonly (DiskPart & { readonly sizeBytes: number })[]) {
    let startBytes = 0;
    this.#placed = parts.map((part) => {
      const { sizeBytes } = part;
      const placed = { startBytes, sizeBytes, part };
      startBytes += sizeBytes;
      return placed;
    });
    this.sizeBytes = startBytes;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return joined(
      this.#pieces(offsetBytes, lengthBytes).map(({ part, partOffset, length }) => part.read(partOffset, length)),
    );
  }

  async write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    await settled(
      this.#pieces(offsetBytes, data.length).map(({ part, partOffset, from, length }) =>
        part.write(partOffset, data.subarray(from, from + length), fua),
      ),
    );
  }

  async clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    await settled(
      this.#pieces(offsetBytes, lengthBytes).map(({ part, partOffset, length }) =>
        part.clear(partOffset, length, options),
      ),
    );
  }

  async flush(): Promise<void> {
    await settled(this.#placed.map(({ part }) => part.flush()));
  }

  close(): void {
    for (const { part } of this.#placed) part.close();
  }

  #pieces(offsetBytes: number, lengthBytes: number) {
    const pieces: { part: DiskPart; partOffset: number; from: number; length: number }[] = [];
    for (const { startBytes, sizeBytes, part } of this.#placed) {
      const start = Math.max(offsetBytes, startBytes);
      const end = Math.min(offsetBytes + lengthBytes, startBytes + sizeBytes);
      if (start < end)
        pieces.push({ part, partOffset: start - startBytes, from: start - offsetBytes, length: end - start });
    }
    return pieces;
  }
}
