import type { LockName } from "../locks/locks.js";

/** Returns the name of a node's exclusive lock. */
export function lockOf(nodeId: string): LockName {
  return { type: "node", resource: nodeId };
}
