import type {
  IgnoreRequest,
  IgnoreResponse,
  InstanceSelection,
  UnignoreRequest,
  UnignoreResponse,
} from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { formatInstance, type Instance } from "../model/instance.js";
import { selectInstances } from "../model/lifecycle.js";
import { instancesOf, refuseUnlessOpen } from "../model/recorded-deployments.js";
import { parseSelection } from "./parse.js";

export async function ignore(context: Context, { selection }: IgnoreRequest): Promise<IgnoreResponse> {
  await setIgnore(context, selection, true);
  return {};
}

export async function unignore(context: Context, { selection }: UnignoreRequest): Promise<UnignoreResponse> {
  await setIgnore(context, selection, false);
  return {};
}

async function setIgnore(
  context: Context,
  selection: InstanceSelection | undefined,
  isIgnored: boolean,
): Promise<void> {
  const { deployment, ...which } = parseSelection(selection);
  await context.tablet.transact((tx) => {
    refuseUnlessOpen(tx, deployment);
    const instances = selectInstances(instancesOf(tx, deployment), which);
    refuseWhileAtWork(context, instances);
    for (const instance of instances) tx.instances.put({ ...instance, ignore: isIgnored });
  });
}

/** Whoever has begun with an instance would leave it half done. */
function refuseWhileAtWork({ locks }: Context, instances: readonly Instance[]): void {
  const taskOf = new Map(
    locks.list().flatMap((lock) => (lock.type === "instance" ? [[lock.resource, lock.taskId] as const] : [])),
  );
  for (const instance of instances) {
    const taskId = taskOf.get(instance.instanceId);
    if (taskId === undefined) continue;
    throw new InvalidStateError(`task ${taskId} is at work on ${formatInstance(instance)}: wait for its end`, {
      about: { instance_id: instance.instanceId, task_id: String(taskId) },
    });
  }
}
