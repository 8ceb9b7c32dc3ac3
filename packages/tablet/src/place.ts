/** Bytes, such as a key in a page, that stay as they are while this is used. */
export interface Place {
  readonly bytes: Buffer;
  readonly at: number;
  readonly sizeBytes: number;
}

/** All bytes of a buffer, or those from there on. */
export function placeOf(bytes: Buffer, at = 0): Place {
  return { bytes, at, sizeBytes: bytes.length - at };
}

export function textAt({ bytes, at, sizeBytes }: Place): string {
  return bytes.toString("utf8", at, at + sizeBytes);
}

export function bytesAt({ bytes, at, sizeBytes }: Place): Buffer {
  return bytes.subarray(at, at + sizeBytes);
}
