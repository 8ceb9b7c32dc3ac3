import type { LockServiceService } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeLock } from "../wire.js";

export function listLocks(context: Context): Handler<(typeof LockServiceService)["listLocks"]> {
  return async () => ({ locks: context.locks.list().map(encodeLock) });
}
