import type {
  IgnoreRequest,
  IgnoreResponse,
  InstanceSelection,
  ListInstancesRequest,
  ListInstancesResponse,
  UnignoreRequest,
  UnignoreResponse,
} from "@diskmesh/api/director";
import { InvalidStateError, parseName } from "@diskmesh/domain";
import { type CallContext, pageOfItems } from "@diskmesh/rpc";
import { askerOf, scopeOf } from "../audit/asker.js";
import { formatInstance, type Instance } from "../store/instance.js";
import { parseSelection, placeOf } from "../tasks/parse.js";
import type { InstanceContext } from "./context.js";
import { selectInstances } from "./lifecycle.js";
import { instancesOf, refuseUnlessOpen, requireDeployment } from "./recorded-deployments.js";
import { encodeInstance } from "./wire.js";

export async function ignore(
  context: InstanceContext,
  { selection }: IgnoreRequest,
  call: CallContext,
): Promise<IgnoreResponse> {
  await setIgnore(context, selection, true, call);
  return {};
}

export async function unignore(
  context: InstanceContext,
  { selection }: UnignoreRequest,
  call: CallContext,
): Promise<UnignoreResponse> {
  await setIgnore(context, selection, false, call);
  return {};
}

async function setIgnore(
  context: InstanceContext,
  selection: InstanceSelection | undefined,
  isIgnored: boolean,
  call: CallContext,
): Promise<void> {
  const { deployment, ...which } = parseSelection(selection);
  await context.tablet.transact((tx) => {
    refuseUnlessOpen(tx, deployment);
    const instances = selectInstances(instancesOf(tx, deployment), which);
    refuseWhileAtWork(context, instances);
    for (const instance of instances) tx.instances.put({ ...instance, ignore: isIgnored });
    const objectName = placeOf({ deployment, ...which });
    const deed = { action: isIgnored ? "ignore" : "unignore", objectType: "instance", objectName };
    context.events.note(tx, deed, askerOf(call), { deployment });
  });
}

/** Throws while a task holds an instance's lock, because the task would leave the instance half changed. */
function refuseWhileAtWork({ locks }: InstanceContext, instances: readonly Instance[]): void {
  const taskOf = new Map(
    locks.list().flatMap((lock) => (lock.type === "instance" ? [[lock.resource, lock.taskId] as const] : [])),
  );
  for (const instance of instances) {
    const taskId = taskOf.get(instance.instanceId);
    if (taskId === undefined) continue;
    throw new InvalidStateError(`task ${taskId} is working on ${formatInstance(instance)}: wait until it ends`, {
      about: { instance_id: instance.instanceId, task_id: String(taskId) },
    });
  }
}

const INDEX_DIGITS = 10;

export async function listInstances(
  context: InstanceContext,
  request: ListInstancesRequest,
  call: CallContext,
): Promise<ListInstancesResponse> {
  const deployment = parseName("deployment", request.deployment);
  const instances = await context.tablet.read((tables) => {
    requireDeployment(tables, deployment, scopeOf(call));
    return instancesOf(tables, deployment);
  });
  const shown = ({ agentId }: Instance) =>
    request.agentHealth && agentId !== "" ? context.agentHealths.shown(agentId) : undefined;
  const { items, nextPageToken } = pageOfItems(request, instances, {
    what: "instances",
    keyOf: ({ group, index }) => `${group} ${String(index).padStart(INDEX_DIGITS, "0")}`,
  });
  return { instances: items.map((instance) => encodeInstance(instance, shown(instance))), nextPageToken };
}
