import { InvalidArgumentError, isJsonObject, type JsonObject, jsonDepthOf, parseHostId } from "@diskmesh/domain";
import type { Operation } from "../../config/policy.js";
import { ownerText } from "../../locks/locks.js";
import { stateOfNode } from "../../vendor-methods/handlers.js";
import type { Target } from "../../vendor-methods/passthru.js";
import type { VendorMethod, VendorScope } from "../../vendor-methods/vendor-method.js";
import { type Answer, json } from "../answer.js";
import { bodyText } from "../body.js";
import { API_VERSIONS, guarded, PASSTHRU_PREFIX, versioned } from "../passthru-answer.js";
import type { HttpCall, Route } from "../route.js";

// The routes of Ironic's vendor passthru, so that its own client works.

// HEAD before GET: where it is not declared yet, each GET brings one of its own.
const VERBS = ["HEAD", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] as const;
const MAX_DEPTH = 25;
const MAX_BODY_BYTES = 1024 * 1024;
const LISTING = "methods";

const OPERATIONS: Readonly<Record<VendorScope, Operation>> = {
  read: "readByVendorMethod",
  call: "callVendorMethod",
  admin: "adminByVendorMethod",
};

const targets = {
  nodes: (http: HttpCall): Target => ({ kind: "node", nodeId: nodeOf(http) }),
  drivers: (http: HttpCall): Target => ({ kind: "driver", driver: http.param("ident") }),
};

export const passthruRoutes: readonly Route[] = [
  {
    method: "GET",
    path: PASSTHRU_PREFIX,
    operation: "readByVendorMethod",
    serve: async () => {
      const version = { id: "v1", status: "CURRENT", min_version: API_VERSIONS.min, version: API_VERSIONS.max };
      return versioned(json({ id: "v1", version, versions: [version] }));
    },
  },
  {
    method: "GET",
    path: `${PASSTHRU_PREFIX}/drivers`,
    operation: "readByVendorMethod",
    serve: async (http) => {
      const drivers = await http.context.passthru.drivers("", http.call.signal);
      return versioned(json({ drivers: drivers.map(({ name, state, problem }) => ({ name, state, problem })) }));
    },
  },
  {
    method: "GET",
    path: `${PASSTHRU_PREFIX}/nodes/:ident`,
    operation: "readByVendorMethod",
    serve: async (http) => {
      const nodeId = nodeOf(http);
      const { holder, error } = await stateOfNode(http.context, nodeId, http.call.signal);
      const reservation = holder && ownerText(holder);
      return versioned(
        json({ uuid: nodeId, name: nodeId, reservation: reservation ?? null, last_error: error?.text ?? null }),
      );
    },
  },
  ...(["nodes", "drivers"] as const).flatMap((kind) => {
    const path = `${PASSTHRU_PREFIX}/${kind}/:ident/vendor_passthru`;
    return VERBS.flatMap((method): Route[] => [
      {
        method,
        path,
        operation: "readByVendorMethod",
        changes: true,
        serve: (http) => called(http, targets[kind], undefined),
      },
      {
        method,
        path: `${path}/:method`,
        operation: "readByVendorMethod",
        changes: true,
        serve: (http) =>
          method === "GET" && http.param("method") === LISTING
            ? listed(http, targets[kind](http))
            : called(http, targets[kind], http.param("method")),
      },
    ]);
  }),
];

function nodeOf(http: HttpCall): string {
  const ident = http.param("ident");
  try {
    return parseHostId(ident);
  } catch {
    throw new InvalidArgumentError(`Expected UUID or name for node_ident: ${JSON.stringify(ident.slice(0, 64))}`);
  }
}

async function listed(http: HttpCall, target: Target): Promise<Answer> {
  refuseOthers(http, []);
  const methods = await http.context.passthru.list(target, http.call.signal);
  return versioned(json(Object.fromEntries(methods.map((method) => [method.name, shown(method, target)]))));
}

function shown(method: VendorMethod, { kind }: Target): object {
  const { async, description, httpMethods, exclusiveLock, driver, scope, schema } = method;
  const lock = kind === "node" ? { require_exclusive_lock: exclusiveLock } : {};
  return { async, attach: false, description, http_methods: httpMethods, ...lock, driver, scope, args_schema: schema };
}

async function called(
  http: HttpCall,
  targetOf: (http: HttpCall) => Target,
  inPath: string | undefined,
): Promise<Answer> {
  const target = targetOf(http);
  const { query, request, context, call } = http;
  refuseOthers(http, inPath === undefined ? ["method", "wait"] : ["wait"]);
  const method = inPath ?? query.get("method");
  if (method === null) throw new InvalidArgumentError("Missing mandatory parameter: method");
  if (method === "") throw new InvalidArgumentError("Method not specified");
  const text = bodyText(request);
  if (Buffer.byteLength(text) > MAX_BODY_BYTES)
    return guarded(413, `Request body exceeds the limit of ${MAX_BODY_BYTES} bytes`);
  if (jsonDepthOf(text) > MAX_DEPTH)
    return guarded(400, `Request body JSON is nested too deeply: the limit is ${MAX_DEPTH}`);
  const outcome = await context.passthru.call(call, {
    target,
    method,
    httpMethod: request.method,
    args: argsOf(text),
    wait: waitOf(query),
    authorise: (scope) => http.require(OPERATIONS[scope]),
  });
  if (!outcome.async) return versioned(json(outcome.value));
  // Clients that know diskmesh find the task by it.
  return versioned({ status: 202, headers: { location: `/tasks/${outcome.task.taskId}` } });
}

function refuseOthers({ query }: HttpCall, known: readonly string[]): void {
  const others = [...new Set(query.keys())].filter((name) => !known.includes(name));
  if (others.length > 0)
    throw new InvalidArgumentError(`Unexpected arguments: ${others.map((name) => name.slice(0, 64)).join(", ")}`);
}

function waitOf(query: URLSearchParams): boolean {
  const wait = query.get("wait") ?? "false";
  if (wait === "true" || wait === "false") return wait === "true";
  throw new InvalidArgumentError("wait is neither true nor false");
}

function argsOf(text: string): JsonObject {
  if (text.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("The body is not JSON");
  }
  if (value === null) return {};
  if (isJsonObject(value)) return value;
  throw new InvalidArgumentError("The body is no JSON object");
}
