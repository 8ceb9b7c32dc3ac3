import type { ClearOptions } from "../files/file-bytes.js";

/** A part of a disk on one device, of this or another host. Offsets count from the part's start. */
export interface DiskPart {
  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array>;
  /** With `fua`, resolves only once the bytes are on the device. */
  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void>;
  /** Clears bytes as `kind` says. With `fua`, resolves only once the change is on the device. */
  clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void>;
  flush(): Promise<void>;
  close(): void;
}
