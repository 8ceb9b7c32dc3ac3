import type { ListLocksResponse } from "@diskmesh/api/director";
import type { Context } from "../context.js";
import { encodeLock } from "../wire.js";

export async function listLocks(context: Context): Promise<ListLocksResponse> {
  return { locks: context.locks.list().map(encodeLock) };
}
