import { DomainError, InvalidArgumentError, parseHostId } from "@diskmesh/domain";
import { ownerText } from "../../locks/locks.js";
import { sideBySide } from "../../tasks/run-all.js";
import { type NodeState, stateOfNode, statesOfNodes } from "../../vendor-methods/handlers.js";
import { PASSTHRU_PREFIX } from "../passthru-answer.js";
import type { HttpCall } from "../route.js";

// Hosts as nodes of Ironic.

/** Node fields that the stock client displays and that hosts of diskmesh do not have. */
const NOT_OF_HOSTS = { instance_uuid: null, power_state: null, provision_state: null, maintenance: false };
/** Ironic's filters by properties that are false, or absent, for every host. */
const FALSE_FILTERS = ["maintenance", "associated", "retired", "sharded"];
const ABSENT_FILTERS =
  "chassis_uuid conductor conductor_group description_contains fault health instance_name instance_uuid lessee owner parent_node project provision_state resource_class shard".split(
    " ",
  );
const LIST_OPTIONS = ["limit", "marker", "fields", "detail", "sort_key", "sort_dir", "driver", "include_children"];
const INTERFACES =
  "bios boot console deploy firmware inspect management network power raid rescue storage vendor".split(" ");
/** Agents that are asked for their drivers at the same time. */
const ASKED_AT_ONCE = 32;

export function nodeOf(http: HttpCall): string {
  const ident = http.param("ident");
  try {
    return parseHostId(ident);
  } catch {
    throw new InvalidArgumentError(`Expected UUID or name for node_ident: ${ident.slice(0, 64)}`);
  }
}

export function hrefOf({ host }: HttpCall["request"], rest: string): string {
  return `https://${host}${PASSTHRU_PREFIX}${rest}`;
}

export function refuseOthers({ query }: HttpCall, known: readonly string[]): void {
  const others = [...new Set(query.keys())].filter((name) => !known.includes(name));
  if (others.length > 0)
    throw new InvalidArgumentError(`Unexpected arguments: ${others.map((name) => name.slice(0, 64)).join(", ")}`);
}

/** Returns a node with the holder of its lock and its last error. */
export async function withState(http: HttpCall): Promise<object> {
  refuseOthers(http, ["fields"]);
  const nodeId = nodeOf(http);
  return chosenFields(http.query)(nodeWith(nodeId, await stateOfNode(http.context, nodeId, http.call.signal)));
}

/** Returns whether the node's agent offers vendor methods now. Hosts have none of Ironic's other interfaces. */
export async function validationOf(http: HttpCall): Promise<object> {
  const nodeId = nodeOf(http);
  const { context, call } = http;
  await context.passthru.requireNode(nodeId, call.signal);
  const vendor = await context.passthru.list({ kind: "node", nodeId }, call.signal).then(
    () => ({ result: true, reason: "" }),
    (error: unknown) => {
      if (!(error instanceof DomainError) || call.signal.aborted) throw error;
      return { result: false, reason: error.message };
    },
  );
  const absent = { result: null, reason: "nodes are hosts of diskmesh, which do not have this interface" };
  return Object.fromEntries(INTERFACES.map((name) => [name, name === "vendor" ? vendor : absent]));
}

/** Returns the nodes after `marker` that match the filters; with `limit`, a page with a link to the next at `path`. */
export async function nodesOf(http: HttpCall, path: string): Promise<object> {
  refuseOthers(http, [...LIST_OPTIONS, ...FALSE_FILTERS, ...ABSENT_FILTERS]);
  const { query, context, call, request } = http;
  const limit = Number(query.get("limit") ?? 0);
  if (!Number.isSafeInteger(limit) || limit < 0) throw new InvalidArgumentError("limit must be a number from 0 on");
  const direction = query.get("sort_dir") ?? "asc";
  if (direction !== "asc" && direction !== "desc") throw new InvalidArgumentError("sort_dir is neither asc nor desc");
  const fields = chosenFields(query);
  const isKept =
    FALSE_FILTERS.every((name) => !truthOf(query, name)) && !ABSENT_FILTERS.some((name) => query.has(name));
  // Nodes differ in their names only, so that every sort_key is followed by the name.
  const sorted = isKept ? await context.registries.hostIds(call) : [];
  if (direction === "desc") sorted.reverse();
  const marker = query.get("marker");
  const after = sorted.filter((id) => marker === null || (direction === "asc" ? id > marker : id < marker));
  const driver = query.get("driver");
  const matching = driver === null ? after : await withDriver(http, after, driver);
  const page = limit === 0 ? matching : matching.slice(0, limit);
  const isDetailed = path.endsWith("/detail") || truthOf(query, "detail") || query.has("fields");
  const states = isDetailed ? await statesOfNodes(context, page) : [];
  const nodes = page.map((nodeId, index) => fields(nodeWith(nodeId, states[index])));
  if (page.length === matching.length) return { nodes };
  const next = new URLSearchParams(query);
  next.set("marker", page.at(-1) ?? "");
  return { nodes, next: hrefOf(request, `${path}?${next}`) };
}

/** Returns a node as Ironic shows it: with the state only where a caller asks for details. */
function nodeWith(nodeId: string, state: NodeState | undefined): object {
  const node = { uuid: nodeId, name: nodeId, ...NOT_OF_HOSTS };
  if (state === undefined) return node;
  const { holder, error } = state;
  return { ...node, reservation: holder === undefined ? null : ownerText(holder), last_error: error?.text ?? null };
}

/** Returns the nodes whose agents answer that they run the driver. */
async function withDriver({ context, call }: HttpCall, nodeIds: string[], driver: string): Promise<string[]> {
  const found = new Set<string>();
  await sideBySide(nodeIds, ASKED_AT_ONCE, async (nodeId) => {
    const drivers = await context.passthru.drivers(nodeId, call.signal).catch((error: unknown) => {
      if (!(error instanceof DomainError) || call.signal.aborted) throw error;
      return [];
    });
    if (drivers.some(({ name }) => name === driver)) found.add(nodeId);
  });
  return nodeIds.filter((nodeId) => found.has(nodeId));
}

/** Returns a function that reduces a node to `fields`. A field of Ironic that hosts do not have is null. */
function chosenFields(query: URLSearchParams): (node: object) => object {
  const names = query.get("fields")?.split(",");
  const wrong = names?.filter((name) => !/^[a-z_]{1,64}$/.test(name)) ?? [];
  if (wrong.length > 0) throw new InvalidArgumentError(`Field(s) "${wrong.join(", ").slice(0, 64)}" are not valid`);
  return (node) => {
    const values = new Map(Object.entries(node));
    return names === undefined ? node : Object.fromEntries(names.map((name) => [name, values.get(name) ?? null]));
  };
}

/** Returns a Boolean of the query as Ironic reads it; false when it is absent. */
function truthOf(query: URLSearchParams, name: string): boolean {
  const value = (query.get(name) ?? "false").toLowerCase();
  if (["1", "t", "true", "on", "y", "yes"].includes(value)) return true;
  if (["0", "f", "false", "off", "n", "no"].includes(value)) return false;
  throw new InvalidArgumentError(`${name} is neither true nor false`);
}
