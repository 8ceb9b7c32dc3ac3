import { sealDocument } from "../documents/document.js";
import type { StoredChange } from "../documents/schema.js";

/** Upper bound of the size of a change with the longest possible key, without its document. */
const CHANGE_OVERHEAD_BYTES = 2_048;

/**
 * Groups changes, in order, into groups that each fit one commit. A document above the limit gets a group of its own.
 */
export function* commitSized(
  changes: Iterable<StoredChange>,
  commitSizeBytes: number,
): Generator<readonly StoredChange[]> {
  let group: StoredChange[] = [];
  let sizeBytes = 0;
  for (const change of changes) {
    const changeSizeBytes = CHANGE_OVERHEAD_BYTES + (change.document === null ? 0 : sealDocument(change.document));
    if (group.length > 0 && sizeBytes + changeSizeBytes > commitSizeBytes) {
      yield group;
      [group, sizeBytes] = [[], 0];
    }
    group.push(change);
    sizeBytes += changeSizeBytes;
  }
  if (group.length > 0) yield group;
}
