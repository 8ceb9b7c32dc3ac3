import type { CopyRequest } from "@diskmesh/disk-agent/simulation";

/**
 * Returns whether an earlier request must end before another one of the block begins, or before the block is copied (without
 * a kind). Of a block one write, or one copy, is on its way at a time, and no write while a read is. What a read has
 * returned is therefore in every copy that counts.
 */
export function mustEndFirst(
  earlier: CopyRequest,
  next: { readonly kind: CopyRequest["kind"] | undefined; readonly part: number; readonly block: number },
): boolean {
  if (earlier.kind === "flush" || earlier.part !== next.part || earlier.block !== next.block) return false;
  const isOnItsWay = earlier.answers.size > 0;
  if (earlier.kind === "read") return next.kind === "write" && isOnItsWay;
  return next.kind !== undefined || isOnItsWay;
}
