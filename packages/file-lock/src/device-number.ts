/** Returns "major:minor" of a device number in the user-space encoding of Linux. */
export function deviceNumber(dev: bigint, radix: 10 | 16 = 10): string {
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & 0xfffff000n);
  const minor = (dev & 0xffn) | ((dev >> 12n) & 0xffffff00n);
  // The kernel pads hexadecimal parts to two digits, as in /proc/locks.
  const text = (part: bigint) => (radix === 16 ? part.toString(16).padStart(2, "0") : part.toString());
  return `${text(major)}:${text(minor)}`;
}
