import { createHash } from "node:crypto";
import { AbortedError } from "@diskmesh/domain";
import type { Disk, Label } from "../model/store/schema.js";

const ETAG_DIGITS = 16;

/** Returns the etag of a disk's labels, which is equal for equal labels. */
export function labelsEtag(labels: readonly Label[]): string {
  const text = JSON.stringify(labels.map(({ name, value }) => [name, value]));
  return createHash("sha256").update(text).digest("hex").slice(0, ETAG_DIGITS);
}

/** Throws AbortedError when the labels have changed since the caller read `etag`; an empty `etag` skips the check. */
export function requireSameLabels({ diskId, labels }: Disk, etag: string): void {
  if (etag === "" || etag === labelsEtag(labels)) return;
  throw new AbortedError(
    `the labels of disk ${diskId} have changed since the etag ${JSON.stringify(etag.slice(0, ETAG_DIGITS))}: read the disk again, then repeat the change`,
    { about: { disk_id: diskId, labels_etag: labelsEtag(labels) } },
  );
}
