import { type Lock, LockType } from "@diskmesh/api/director";
import type { ShownLock } from "./locks.js";

export function encodeLock(lock: ShownLock): Lock {
  const { type, resource, taskId, deadlineAtMs, waitingTaskIds } = lock;
  const expireTime = new Date(deadlineAtMs);
  const wireType = LockType[type.toUpperCase() as Uppercase<typeof type>];
  return { type: wireType, resource, taskId, expireTime, waitingTaskIds: [...waitingTaskIds] };
}
