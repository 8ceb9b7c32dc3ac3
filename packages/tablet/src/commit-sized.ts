import { sealDocument } from "./document.js";
import type { StoredChange } from "./storage.js";

/** Bytes of a change beside its document, with the longest key. */
const CHANGE_OVERHEAD_BYTES = 2_048;

/** Groups changes in order so that each group fits one commit. A document above the limit makes a group of its own. */
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
