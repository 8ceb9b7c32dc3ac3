import { InvalidArgumentError } from "@diskmesh/domain";

/** RFC 5280 has at most 20 octets. */
const SERIAL_NUMBER = /^[0-9A-F]{1,40}$/;

/** Of hex with or without colons and zeros before it, as openssl, browsers and Node write the same number. */
export function normalSerial(text: string): string {
  return text
    .replaceAll(":", "")
    .toUpperCase()
    .replace(/^0+(?=.)/, "");
}

/**
 * The serial numbers in a file of them: one a line, in hex; `#` begins a remark. Throws InvalidArgumentError for a line that
 * is none: a revocation with a slip of the pen must not pass for one that counts.
 */
export function parseRevoked(content: Buffer, file: string, section = "tls"): ReadonlySet<string> {
  const serials = new Set<string>();
  for (const [index, line] of content.toString("latin1").split("\n").entries()) {
    const serial = normalSerial((line.split("#")[0] ?? "").trim());
    if (serial === "") continue;
    if (!SERIAL_NUMBER.test(serial))
      throw new InvalidArgumentError(
        `${section}.revokedFile ${file} has no serial number at line ${index + 1}: give one in hex a line, and remarks after #`,
      );
    serials.add(serial);
  }
  return serials;
}
