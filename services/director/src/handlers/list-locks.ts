import type { ListLocksResponse } from "@diskmesh/api/director";
import { encodeLock } from "../wire.js";
import type { LockKeeper } from "../workers/lock-keeper.js";

export async function listLocks({ locks }: { readonly locks: Pick<LockKeeper, "list"> }): Promise<ListLocksResponse> {
  return { locks: locks.list().map(encodeLock) };
}
