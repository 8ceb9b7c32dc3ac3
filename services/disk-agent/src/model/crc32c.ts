const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0x82f63b78 : sum >>> 1;
  return sum;
});

/** Returns the CRC-32C of the bytes. */
export function crc32c(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) sum = (sum >>> 8) ^ (CRC_TABLE[(sum ^ (bytes[at] ?? 0)) & 255] ?? 0);
  return ~sum >>> 0;
}
