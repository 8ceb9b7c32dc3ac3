import { InvalidArgumentError, NotFoundError, parseHostId } from "@diskmesh/domain";
import { ownerText } from "../../locks/locks.js";
import { stateOfNode } from "../../vendor-methods/handlers.js";
import { json } from "../answer.js";
import {
  API_VERSIONS,
  PASSTHRU_PREFIX,
  refuseOtherAnswers,
  refuseOtherVersions,
  versioned,
} from "../passthru-answer.js";
import type { HttpCall, Route } from "../route.js";

// Routes that Ironic clients call before they call a vendor method.

const OPERATION = "readByVendorMethod";
/** Node fields that the stock client displays and that hosts of diskmesh do not have. */
const NOT_OF_HOSTS = { instance_uuid: null, power_state: null, provision_state: null, maintenance: false };

const get = (path: string, serve: (http: HttpCall) => Promise<object>): Route => ({
  method: "GET",
  path,
  operation: OPERATION,
  serve: async (http) => versioned(json(await serve(http))),
});

const versionDocuments = [
  get("/", async (http) => ({ ...versionsOf(http), default_version: versionOf(http) })),
  get(PASSTHRU_PREFIX, async (http) => ({ id: "v1", version: versionOf(http), ...versionsOf(http) })),
];

export const ironicRoutes: readonly Route[] = [
  ...versionDocuments,
  get(`${PASSTHRU_PREFIX}/drivers`, async (http) => ({ drivers: await driversOf(http) })),
  get(`${PASSTHRU_PREFIX}/drivers/:ident`, async (http) => {
    const ident = http.param("ident");
    const found = (await driversOf(http)).find(({ name }) => name === ident);
    if (found === undefined) throw new NotFoundError(`The driver ${JSON.stringify(ident.slice(0, 64))} is unknown.`);
    return found;
  }),
  get(`${PASSTHRU_PREFIX}/nodes`, nodesOf),
  get(`${PASSTHRU_PREFIX}/nodes/:ident`, async (http) => {
    const nodeId = nodeOf(http);
    const { holder, error } = await stateOfNode(http.context, nodeId, http.call.signal);
    const reservation = holder && ownerText(holder);
    return { ...nodeObject(nodeId), reservation: reservation ?? null, last_error: error?.text ?? null };
  }),
];

/** Wraps a route to refuse requests for an unsupported API version or response type; `types` are the route's. */
export function negotiated(route: Route, types: readonly string[]): Route {
  if (versionDocuments.includes(route)) return route;
  return {
    ...route,
    serve: async (http) => {
      refuseOtherVersions(http.request.headers);
      refuseOtherAnswers(http.request.headers, types);
      return route.serve(http);
    },
  };
}

export function nodeOf(http: HttpCall): string {
  const ident = http.param("ident");
  try {
    return parseHostId(ident);
  } catch {
    throw new InvalidArgumentError(`Expected UUID or name for node_ident: ${JSON.stringify(ident.slice(0, 64))}`);
  }
}

export function refuseOthers({ query }: HttpCall, known: readonly string[]): void {
  const others = [...new Set(query.keys())].filter((name) => !known.includes(name));
  if (others.length > 0)
    throw new InvalidArgumentError(`Unexpected arguments: ${others.map((name) => name.slice(0, 64)).join(", ")}`);
}

function versionOf({ request }: HttpCall): object {
  const links = [{ rel: "self", href: hrefOf(request, "/") }];
  return { id: "v1", status: "CURRENT", min_version: API_VERSIONS.min, version: API_VERSIONS.max, links };
}

function versionsOf(http: HttpCall): object {
  return { versions: [versionOf(http)] };
}

function hrefOf({ host }: HttpCall["request"], rest: string): string {
  return `https://${host}${PASSTHRU_PREFIX}${rest}`;
}

async function driversOf({ context, call, request }: HttpCall) {
  const drivers = await context.passthru.drivers("", call.signal);
  return drivers.map(({ name, state, problem }) => ({
    ...{ name, state, problem, hosts: [] },
    links: [{ rel: "self", href: hrefOf(request, `/drivers/${name}`) }],
  }));
}

function nodeObject(nodeId: string): object {
  return { uuid: nodeId, name: nodeId, ...NOT_OF_HOSTS };
}

/**
 * Returns the nodes after `marker`; with `limit`, a page with a link to the next. `fields` and `detail` have no effect,
 * because every node has all fields.
 */
async function nodesOf(http: HttpCall): Promise<object> {
  refuseOthers(http, ["limit", "marker", "fields", "detail"]);
  const { query, context, call, request } = http;
  const marker = query.get("marker") ?? "";
  const limit = Number(query.get("limit") ?? 0);
  if (!Number.isSafeInteger(limit) || limit < 0) throw new InvalidArgumentError("limit must be a number from 0 on");
  const after = (await context.registries.hostIds(call)).filter((nodeId) => nodeId > marker);
  const page = limit === 0 ? after : after.slice(0, limit);
  const next = hrefOf(request, `/nodes?limit=${limit}&marker=${page.at(-1)}`);
  return { nodes: page.map(nodeObject), ...(page.length < after.length && { next }) };
}
