import type { AgentJobContext } from "../agents/context.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTransaction } from "../store/schema.js";

type NextInstance = (instance: Instance, tx: DirectorTransaction) => Instance;

/** Replaces an instance's record by the result of `next`. Requires the instance's lock. */
export function changeInstance(context: AgentJobContext, instanceId: string, next: NextInstance): Promise<Instance> {
  return context.tablet.transact((tx) => changeIn(tx, instanceId, next));
}

export function changeIn(tx: DirectorTransaction, instanceId: string, next: NextInstance): Instance {
  const instance = tx.instances.get(instanceId);
  // The lock is held, so no other task can have deleted the instance.
  if (instance === undefined) throw new TypeError("an instance vanished while it was locked");
  const changed = next(instance, tx);
  tx.instances.put(changed);
  return changed;
}
