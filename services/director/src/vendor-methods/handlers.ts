import {
  type CallMethodRequest,
  type CallMethodResponse,
  DriverState,
  type GetNodeRequest,
  type GetNodeResponse,
  HttpMethod,
  type ListDriversRequest,
  type ListDriversResponse,
  type ListMethodsRequest,
  type ListMethodsResponse,
  MethodScope,
  type MethodTarget,
  type PublishedDriver,
} from "@diskmesh/api/director";
import { InvalidArgumentError, parseHostId, parseId } from "@diskmesh/domain";
import { type CallContext, durationOf, pageOfItems } from "@diskmesh/rpc";
import type { LockHolder } from "../locks/lock-keeper.js";
import type { NodeError } from "../store/node-error.js";
import { encodeTask } from "../tasks/wire.js";
import type { VendorContext } from "./context.js";
import { lockOf } from "./node-lock.js";
import { refuseTooLarge } from "./vendor-method.js";
import type { Target } from "./wanted-call.js";

export async function listMethods(
  { passthru }: VendorContext,
  request: ListMethodsRequest,
  { signal }: CallContext,
): Promise<ListMethodsResponse> {
  const methods = await passthru.list(parseTarget(request.target), signal);
  const { items, nextPageToken } = pageOfItems(request, methods, {
    what: "methods",
    keyOf: ({ name, driver }) => `${name} ${driver}`,
  });
  return {
    nextPageToken,
    methods: items.map(({ schema, httpMethods, scope, timeoutMs, ...method }) => ({
      ...method,
      scope: MethodScope[scope.toUpperCase() as Uppercase<typeof scope>],
      // Agents of other versions may accept unknown methods.
      httpMethods: httpMethods.map((each) => HttpMethod[each as keyof typeof HttpMethod] ?? HttpMethod.UNSPECIFIED),
      argsSchema: { ...schema },
      timeout: timeoutMs === 0 ? undefined : durationOf(timeoutMs),
    })),
  };
}

export async function callMethod(
  { passthru, tasks }: VendorContext,
  request: CallMethodRequest,
  call: CallContext,
): Promise<CallMethodResponse> {
  const { driver, method, wait, requestId, args = {} } = request;
  refuseTooLarge(args);
  const outcome = await passthru.call(call, {
    target: parseTarget(request.target),
    method: driver === "" ? method : `${driver}.${method}`,
    httpMethod: request.httpMethod === HttpMethod.UNSPECIFIED ? "POST" : request.httpMethod.replace("HTTP_METHOD_", ""),
    args,
    wait,
    requestId: requestId === "" ? "" : parseId("request_id", requestId),
    // The role was checked before; operators may call every method.
    authorise: () => undefined,
  });
  if (!outcome.async) {
    const { value } = outcome;
    return { outcome: Buffer.isBuffer(value) ? { $case: "data", value } : { $case: "value", value } };
  }
  const task = wait ? await tasks.whenEnded(outcome.task.taskId, call) : outcome.task;
  return { outcome: { $case: "task", value: encodeTask(task) } };
}

export async function getNode(
  context: VendorContext,
  { nodeId }: GetNodeRequest,
  { signal }: CallContext,
): Promise<GetNodeResponse> {
  const { holder, error } = await stateOfNode(context, parseHostId(nodeId, "node_id"), signal);
  return {
    nodeId,
    holder: holder && { taskId: holder.taskId, what: holder.what, acquireTime: holder.since },
    lastError: error?.text ?? "",
  };
}

/** Drivers are listed by their places in the config, because a driver that was never loaded has no name. */
const PLACE_DIGITS = 6;

export async function listDrivers(
  { passthru }: VendorContext,
  request: ListDriversRequest,
  { signal }: CallContext,
): Promise<ListDriversResponse> {
  const { nodeId } = request;
  const drivers = await passthru.drivers(nodeId === "" ? "" : parseHostId(nodeId, "node_id"), signal);
  const { items, nextPageToken } = pageOfItems<Omit<PublishedDriver, "state"> & { readonly state: string }>(
    request,
    drivers,
    {
      what: "drivers",
      keyOf: (_, at) => String(at).padStart(PLACE_DIGITS, "0"),
    },
  );
  return {
    nextPageToken,
    drivers: items.map(({ name, package: from, state, problem }) => ({
      name,
      package: from,
      // Agents of other versions may report unknown states.
      state: DriverState[state.toUpperCase() as keyof typeof DriverState] ?? DriverState.UNSPECIFIED,
      problem,
    })),
  };
}

/** The holder of a node's lock, and the error of its last asynchronous call. */
export interface NodeState {
  readonly holder: LockHolder | undefined;
  readonly error: NodeError | undefined;
}

/** Returns the state of a node. NotFoundError: no registry knows the node. */
export async function stateOfNode(context: VendorContext, nodeId: string, signal: AbortSignal): Promise<NodeState> {
  await context.passthru.requireNode(nodeId, signal);
  const [state] = await statesOfNodes(context, [nodeId]);
  return state as NodeState;
}

/** Returns the state of each node, in the order given. */
export async function statesOfNodes(
  { locks, tablet }: VendorContext,
  nodeIds: readonly string[],
): Promise<readonly NodeState[]> {
  const errors = await tablet.read((tables) => nodeIds.map((nodeId) => tables.nodeErrors.get(nodeId)));
  return nodeIds.map((nodeId, index) => ({ holder: locks.holder(lockOf(nodeId)), error: errors[index] }));
}

export function parseTarget(target: MethodTarget | undefined): Target {
  const named = target?.target;
  if (named?.$case === "nodeId") return { kind: "node", nodeId: parseHostId(named.value, "target.node_id") };
  if (named?.$case === "driver") return { kind: "driver", driver: named.value };
  throw new InvalidArgumentError("name a node or a driver", { about: { field: "target" } });
}
