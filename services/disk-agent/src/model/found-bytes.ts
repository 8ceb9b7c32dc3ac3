/** Bytes that tell what a program has written to a drive, by their place. */
const SIGNS: readonly (readonly [offsetBytes: number, sign: string | Buffer, what: string])[] = [
  [0, "LUKS\xba\xbe", "a LUKS volume"],
  [0, "XFSB", "an XFS file system"],
  [0, "QFI\xfb", "a qcow2 image"],
  [512, "LABELONE", "an LVM volume"],
  [1_024 + 56, Buffer.from([0x53, 0xef]), "an ext2, ext3 or ext4 file system"],
  [4_096 - 10, "SWAPSPACE2", "swap space"],
  [4_096, Buffer.from([0xfc, 0x4e, 0x2b, 0xa9]), "a part of an md array"],
  [32_769, "CD001", "a CD image"],
  // After the others, because their programs may leave a table of partitions around what they write.
  [512, "EFI PART", "a GPT partition table"],
  [4_096, "EFI PART", "a GPT partition table"],
  [510, Buffer.from([0x55, 0xaa]), "an MBR partition table or boot sector"],
];

/** Returns what the first bytes of a drive are, as text: zeros, a known file system or volume, or other bytes. */
export function describeFirstBytes(bytes: Buffer): string {
  if (bytes.length === 0) return "nothing";
  if (bytes.every((byte) => byte === 0)) return "zeros";
  const found = SIGNS.find(([offsetBytes, sign]) => {
    const expected = typeof sign === "string" ? Buffer.from(sign, "latin1") : sign;
    return bytes.subarray(offsetBytes, offsetBytes + expected.length).equals(expected);
  });
  return found?.[2] ?? "bytes of an unknown kind";
}
