import {
  InvalidArgumentError,
  isJsonObject,
  type JsonObject,
  jsonDepthOf,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { MAX_METHOD_TIMEOUT_MS } from "@diskmesh/driver/host";
import type { Operation } from "../../config/policy.js";
import {
  MAX_ARGUMENTS_BYTES,
  MAX_ARGUMENTS_DEPTH,
  type VendorMethod,
  type VendorScope,
} from "../../vendor-methods/vendor-method.js";
import type { Target } from "../../vendor-methods/wanted-call.js";
import { type Answer, json, methodAnswer } from "../answer.js";
import { bodyText } from "../body.js";
import { guarded, PASSTHRU_PREFIX, refuseOtherAnswers, refuseOtherVersions, versioned } from "../passthru-answer.js";
import type { HttpCall, Route } from "../route.js";
import { nodeOf, refuseOthers } from "./ironic-nodes.js";
import { ironicRoutes, negotiated } from "./ironic-routes.js";

// The routes of Ironic's vendor passthru, for Ironic's stock client.

// HEAD is declared before GET, because fastify otherwise adds a HEAD route for each GET.
const VERBS = ["HEAD", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] as const;
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

const JSON_TYPE = "application/json";
const BYTES_TYPE = "application/octet-stream";

export const passthruRoutes: readonly Route[] = [
  ...ironicRoutes.map((route) => negotiated(route, [JSON_TYPE])),
  ...(["nodes", "drivers"] as const).flatMap((kind) => {
    const path = `${PASSTHRU_PREFIX}/${kind}/:ident/vendor_passthru`;
    return VERBS.flatMap((method): Route[] => [
      {
        method,
        path,
        operation: "readByVendorMethod",
        changes: true,
        maxAnswerMs: MAX_METHOD_TIMEOUT_MS,
        serve: (http) => called(http, targets[kind], undefined),
      },
      {
        method,
        path: `${path}/:method`,
        operation: "readByVendorMethod",
        changes: true,
        maxAnswerMs: MAX_METHOD_TIMEOUT_MS,
        serve: (http) =>
          method === "GET" && http.param("method") === LISTING
            ? listed(http, targets[kind](http))
            : called(http, targets[kind], http.param("method")),
      },
    ]);
  }),
];

async function listed(http: HttpCall, target: Target): Promise<Answer> {
  refuseOtherVersions(http.request.headers);
  refuseOtherAnswers(http.request.headers, [JSON_TYPE, BYTES_TYPE]);
  refuseOthers(http, []);
  const methods = await http.context.passthru.list(target, http.call.signal);
  return versioned(json(Object.fromEntries(methods.map((method) => [method.name, shown(method, target)]))));
}

function shown(method: VendorMethod, { kind }: Target): object {
  const { async, attach, description, httpMethods, exclusiveLock, driver, scope, schema } = method;
  const more = { content_type: method.contentType || null, timeout_ms: method.timeoutMs || null };
  const lock = kind === "node" ? { require_exclusive_lock: exclusiveLock } : {};
  return {
    async,
    attach,
    description,
    http_methods: httpMethods,
    ...lock,
    driver,
    scope,
    ...more,
    args_schema: schema,
  };
}

async function called(
  http: HttpCall,
  targetOf: (http: HttpCall) => Target,
  inPath: string | undefined,
): Promise<Answer> {
  refuseOtherVersions(http.request.headers);
  const target = targetOf(http);
  const { query, request, context, call } = http;
  refuseOthers(http, inPath === undefined ? ["method", "wait"] : ["wait"]);
  const method = inPath ?? query.get("method");
  if (method === null) throw new InvalidArgumentError("Missing mandatory parameter: method");
  if (method === "") throw new InvalidArgumentError("Method not specified");
  const text = bodyText(request);
  if (Buffer.byteLength(text) > MAX_ARGUMENTS_BYTES)
    return guarded(413, `Request body exceeds the limit of ${MAX_ARGUMENTS_BYTES} bytes`);
  if (jsonDepthOf(text) > MAX_ARGUMENTS_DEPTH)
    return guarded(400, `Request body JSON is nested too deeply: the limit is ${MAX_ARGUMENTS_DEPTH}`);
  const args = argsOf(text);
  const wanted = { target, method, httpMethod: request.method, args, wait: waitOf(query), requestId: "" };
  const authorise = ({ scope, async, timeoutMs, contentType }: VendorMethod): void => {
    http.require(OPERATIONS[scope]);
    refuseOtherAnswers(request.headers, contentType === "" ? [JSON_TYPE, BYTES_TYPE] : [contentType]);
    if (!async) http.extend(timeoutMs);
  };
  const outcome = await context.passthru.call(call, { ...wanted, authorise }).catch((error: unknown) => {
    // A full queue is answered with 503, as Ironic answers for a full pool, because Ironic's clients retry on 503.
    if (!(error instanceof ResourceExhaustedError)) throw error;
    throw new UnavailableError(error.message, { retryAfterMs: error.retryAfterMs ?? 1_000, cause: error });
  });
  if (!outcome.async) return versioned(methodAnswer(outcome.value, outcome.method));
  // Clients that know diskmesh find the task by the Location header.
  return versioned({ status: 202, headers: { location: `/tasks/${outcome.task.taskId}` } });
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
