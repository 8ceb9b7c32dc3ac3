import { NotFoundError } from "@diskmesh/domain";
import { json } from "../answer.js";
import {
  API_VERSIONS,
  PASSTHRU_PREFIX,
  refuseOtherAnswers,
  refuseOtherVersions,
  unservedPassthru,
  versioned,
} from "../passthru-answer.js";
import type { HttpCall, Route } from "../route.js";
import { hrefOf, nodeOf, nodesOf, validationOf, withState } from "./ironic-nodes.js";

// Routes that Ironic clients call before they call a vendor method.

const OPERATION = "readByVendorMethod";
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

/** Refuses a change of a node or of a part of it. A node that does not exist is 404, as of Ironic. */
const change = (method: Route["method"], rest: string): Route => {
  const path = `${PASSTHRU_PREFIX}/nodes/:ident${rest}`;
  const serve = async (http: HttpCall) => {
    await http.context.passthru.requireNode(nodeOf(http), http.call.signal);
    return unservedPassthru(method, path);
  };
  return { method, path, operation: OPERATION, serve };
};

export const ironicRoutes: readonly Route[] = [
  ...versionDocuments,
  get(`${PASSTHRU_PREFIX}/drivers`, async (http) => ({ drivers: await driversOf(http) })),
  get(`${PASSTHRU_PREFIX}/drivers/:ident`, driverOf),
  // A driver of diskmesh reads its settings from the config, and no property of a node.
  get(`${PASSTHRU_PREFIX}/drivers/:ident/properties`, (http) => driverOf(http).then(() => ({}))),
  get(`${PASSTHRU_PREFIX}/nodes`, (http) => nodesOf(http, "/nodes")),
  get(`${PASSTHRU_PREFIX}/nodes/detail`, (http) => nodesOf(http, "/nodes/detail")),
  get(`${PASSTHRU_PREFIX}/nodes/:ident`, withState),
  get(`${PASSTHRU_PREFIX}/nodes/:ident/validate`, validationOf),
  ...["", "/*"].flatMap((rest) => (["POST", "PUT", "PATCH", "DELETE"] as const).map((verb) => change(verb, rest))),
  // Nodes have no ports.
  get(`${PASSTHRU_PREFIX}/ports`, async () => ({ ports: [] })),
  get(`${PASSTHRU_PREFIX}/ports/detail`, async () => ({ ports: [] })),
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

function versionOf({ request }: HttpCall): object {
  const links = [{ rel: "self", href: hrefOf(request, "/") }];
  return { id: "v1", status: "CURRENT", min_version: API_VERSIONS.min, version: API_VERSIONS.max, links };
}

function versionsOf(http: HttpCall): object {
  return { versions: [versionOf(http)] };
}

async function driversOf({ context, call, request }: HttpCall) {
  const drivers = await context.passthru.drivers("", call.signal);
  return drivers.map(({ name, package: from, state, problem }) => ({
    ...{ name, package: from, state, problem, hosts: [] },
    links: [{ rel: "self", href: hrefOf(request, `/drivers/${name}`) }],
  }));
}

async function driverOf(http: HttpCall): Promise<object> {
  const ident = http.param("ident");
  const found = (await driversOf(http)).find(({ name }) => name === ident);
  if (found === undefined) throw new NotFoundError(`The driver '${ident.slice(0, 64)}' is unknown.`);
  return found;
}
