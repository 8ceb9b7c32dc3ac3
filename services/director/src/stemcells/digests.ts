import { createHash, type Hash } from "node:crypto";
import { InvalidArgumentError } from "@diskmesh/domain";
import { CODES, coded } from "../tasks/bosh-codes.js";

/** Computes digests of streamed bytes. */
export class Digests {
  readonly #sha1: Hash = createHash("sha1");
  readonly #sha256: Hash = createHash("sha256");

  update(bytes: Buffer): void {
    this.#sha1.update(bytes);
    this.#sha256.update(bytes);
  }

  /** Throws when the digest of the bytes differs from `expected`. */
  check(what: string, expected: string): void {
    const [algorithm, hex] = expected.includes(":")
      ? expected.toLowerCase().split(":")
      : ["sha1", expected.toLowerCase()];
    const found = (algorithm === "sha256" ? this.#sha256 : this.#sha1).digest("hex");
    if (found === hex) return;
    throw coded(
      CODES.stemcellDigest,
      new InvalidArgumentError(
        `${what} has the ${algorithm} ${found}, not ${hex}: the file was damaged or replaced in transit; upload it again`,
      ),
    );
  }
}
