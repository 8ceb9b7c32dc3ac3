import { InvalidArgumentError } from "@diskmesh/domain";

/** RFC 5280 allows at most 20 octets. */
const SERIAL_NUMBER = /^[0-9A-F]{1,40}$/;

/**
 * Normalizes a hex serial number: openssl, browsers and Node write the same number with or without colons and leading
 * zeros.
 */
export function normalSerial(text: string): string {
  return text
    .replaceAll(":", "")
    .toUpperCase()
    .replace(/^0+(?=.)/, "");
}

/**
 * Parses serial numbers, one per line, in hex; `#` begins a comment. Throws InvalidArgumentError for any other line,
 * because a mistyped revocation must not pass for an effective one.
 */
export function parseRevoked(content: Buffer, file: string, section = "tls"): ReadonlySet<string> {
  const serials = new Set<string>();
  for (const [index, line] of content.toString("latin1").split("\n").entries()) {
    const serial = normalSerial((line.split("#")[0] ?? "").trim());
    if (serial === "") continue;
    if (!SERIAL_NUMBER.test(serial))
      throw new InvalidArgumentError(
        `${section}.revokedFile ${file} has no serial number at line ${index + 1}: give one serial number a line, in hex, and comments after #`,
      );
    serials.add(serial);
  }
  return serials;
}
