/** A readable and writable part of a disk, on a device of any host. Offsets count from the part's start. */
export interface DiskPart {
  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array>;
  /** With `fua`, resolves only once the bytes are on the device. */
  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void>;
  flush(): Promise<void>;
  close(): void;
}
