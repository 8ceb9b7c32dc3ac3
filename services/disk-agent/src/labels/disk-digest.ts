import { createHash } from "node:crypto";
import { DIGEST_BYTES } from "../model/run-table.js";

/** Returns what a table of runs has in place of the disk's id. The record of the run has the id. */
export function diskDigest(diskId: string): string {
  return createHash("sha256")
    .update(diskId)
    .digest("hex")
    .slice(0, 2 * DIGEST_BYTES);
}
