import type { LockName } from "../locks/locks.js";

/** The lock of a node, for methods that need it. */
export function lockOf(nodeId: string): LockName {
  return { type: "node", resource: nodeId };
}
