import { checksumInAnyOrder, hexOf } from "./checksums.js";
import type { StoredDocument } from "./schema.js";

/**
 * Returns the sum of the checksums of all documents, as 16 hexadecimal digits. The same state has the same sum in a
 * folder, a database and a backup.
 */
export function stateSumOf(documents: Iterable<StoredDocument>): string {
  let sum = 0n;
  for (const { table, key, ...stored } of documents) sum += checksumInAnyOrder(table, key, stored);
  return hexOf(BigInt.asUintN(64, sum));
}
