import type { Lock } from "@diskmesh/api/director";
import type { ShownLock } from "./locks.js";

export function encodeLock(lock: ShownLock): Lock {
  const { type, resource, taskId, deadlineAtMs, waitingTaskIds } = lock;
  const deadline = new Date(deadlineAtMs);
  return { type, resource, taskId, deadline, waitingTaskIds: [...waitingTaskIds] };
}
