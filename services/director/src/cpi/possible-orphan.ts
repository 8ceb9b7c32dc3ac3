import type { PossibleOrphan } from "../store/possible-orphan.js";

/** Commands that list possible orphans of a kind, for messages. */
export const LISTED_BY: Readonly<Record<PossibleOrphan["kind"], string>> = {
  vm: "`bosh orphaned-vms`",
  disk: "`bosh disks --orphaned`",
  snapshot: "`diskmesh orphans`",
};

/** Returns the commands that list these possible orphans. */
export function listedBy(orphans: readonly PossibleOrphan[]): string {
  const kinds = (["vm", "disk", "snapshot"] as const).filter((kind) => orphans.some((orphan) => orphan.kind === kind));
  return kinds.map((kind) => LISTED_BY[kind]).join(" and ");
}

/** A possible orphan that can be deleted, because its CID is known. */
export type DeletableOrphan = PossibleOrphan & { readonly cid: string };

/** Returns the possible orphans that can be deleted; of one kind and CID if these are given. */
export function deletableOrphans(
  orphans: Iterable<PossibleOrphan>,
  wanted: Partial<Pick<DeletableOrphan, "kind" | "cid">> = {},
): DeletableOrphan[] {
  const { kind, cid } = wanted;
  return [...orphans].filter(
    (orphan): orphan is DeletableOrphan =>
      (orphan.cid ?? "") !== "" && (kind ?? orphan.kind) === orphan.kind && (cid ?? orphan.cid) === orphan.cid,
  );
}

/** Returns the oldest orphans beyond the limit. */
export function surplusOrphans(orphans: Iterable<PossibleOrphan>, limit: number): PossibleOrphan[] {
  const byAge = [...orphans].sort((a, b) => a.sinceMs - b.sinceMs);
  return byAge.slice(0, Math.max(0, byAge.length - limit));
}
