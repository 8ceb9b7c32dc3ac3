/** A stretch of a disk that can be read and written, wherever its device is. Offsets count from the part's start. */
export interface DiskPart {
  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array>;
  /** With `fua` it resolves only once the bytes are on the device. */
  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void>;
  flush(): Promise<void>;
  close(): void;
}
