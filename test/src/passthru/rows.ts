import { HttpMethod, type MethodTarget } from "@diskmesh/api/director";

/** Node under test, and its driver. */
export const NODE = "host-1";
export const B = `/v1/nodes/${NODE}/vendor_passthru`;
export const C = "/v1/drivers/sample/vendor_passthru";

/** Error envelopes as clients of Ironic get them. */
const E = (faultstring: string) => ({ faultcode: "Client", faultstring });
const S = (faultstring: string) => ({ faultcode: "Server", faultstring });

/** A call and its expected result. */
export interface Row {
  readonly title: string;
  readonly send: readonly [verb: string, path: string, body?: unknown];
  readonly contentType?: string;
  /** True for rows about paths, queries or bodies of HTTP, which gRPC lacks. */
  readonly isOfHttp?: true;
  readonly status: number;
  /** Expected value, or error in its envelope. */
  readonly json?: unknown;
  readonly error?: { readonly faultcode: string; readonly faultstring: string };
  /** Expected last error of the node after the call. */
  readonly lastError?: string | null;
}

const KW = { a: 1 };
const echoed = (http_method: string, kw: object) => ({ http_method, kw });
const HTTP = { isOfHttp: true } as const;
const row = (title: string, send: Row["send"], status: number, rest: Partial<Row> = {}): Row => ({
  title,
  send,
  status,
  ...rest,
});

/** Conformance table: the behaviour of Ironic's API, or, marked "ours", a deliberate difference. */
export const ROWS: readonly Row[] = [
  row("1 async -> 202", ["POST", `${B}?method=second_method`, { bar: "kazoo" }], 202, { lastError: null }),
  row("2 its name in the path", ["POST", `${B}/second_method`, { bar: "kazoo" }], 202, { lastError: null }),
  row("3 sync -> 200 true", ["POST", `${B}?method=third_method_sync`, { bar: "meow" }], 200, { json: true }),
  row("4 sync -> 200 false", ["POST", `${B}?method=third_method_sync`, { bar: "x" }], 200, { json: false }),
  row(
    "5 by its name, the only one that a node has",
    ["POST", `/v1/nodes/${NODE}/vendor_passthru/third_method_sync`, { bar: "meow" }],
    200,
    { json: true },
  ),
  row("6 shared", ["POST", `${B}/fourth_shared`, { bar: "woof" }], 202),
  row("7 GET without a body", ["GET", `${B}?method=echo`], 200, { json: echoed("GET", {}) }),
  ...["POST", "PUT", "PATCH", "DELETE", "GET"].map((verb) =>
    row(`8-12 ${verb} with a body`, [verb, `${B}/echo`, KW], 200, { json: echoed(verb, KW) }),
  ),
  row("13 a verb declared in small letters", ["GET", `${B}/lower`], 200, { json: "lower" }),
  row("14 HEAD where it is listed", ["HEAD", `${B}/lower`], 200),
  row("15 TRACE", ["TRACE", `${B}/echo`], 400, {
    error: E("The method echo does not support HTTP TRACE"),
    ...HTTP,
  }),
  row("16 nothing -> null", ["POST", `${B}/none`], 200, { json: null }),
  row("17 a text", ["GET", `${B}/str`], 200, { json: "hello" }),
  row("17 an empty text", ["GET", `${B}/empty`], 200, { json: "" }),
  row("17 false", ["GET", `${B}/false`], 200, { json: false }),
  row("17 a list", ["GET", `${B}/list`], 200, { json: [1, "a", null] }),
  row("17 a number", ["GET", `${B}/num`], 200, { json: 5 }),
  row("18 another verb", ["GET", `${B}/second_method`], 400, {
    error: E("The method second_method does not support HTTP GET"),
  }),
  row("19 another verb, and an argument missing", ["DELETE", `${B}/second_method`], 400, {
    error: E("The method second_method does not support HTTP DELETE"),
  }),
  row("20 no such method", ["POST", `${B}?method=nope`], 400, { error: E("No handler for method nope") }),
  row("21 in other letters", ["POST", `${B}?method=ECHO`], 400, { error: E("No handler for method ECHO") }),
  row("21 methods, by POST", ["POST", `${B}/methods`], 400, { error: E("No handler for method methods") }),
  row("21 methods, in the query", ["GET", `${B}?method=methods`], 400, { error: E("No handler for method methods") }),
  row("22 POST of no method", ["POST", B], 400, { ...HTTP, error: E("Missing mandatory parameter: method") }),
  row("23 GET of no method", ["GET", B], 400, { ...HTTP, error: E("Missing mandatory parameter: method") }),
  row("24 an empty name", ["POST", `${B}?method=`], 400, { ...HTTP, error: E("Method not specified") }),
  row("25 an argument missing", ["POST", `${B}/second_method`, { invalid: "x" }], 400, {
    error: E("Parameter 'bar' not passed to method 'second_method'."),
  }),
  row("26 ours: one too many -> 400", ["POST", `${B}/third_method_sync`, { bar: "meow", extra: 1 }], 400, {
    error: E("Method 'third_method_sync' takes no parameter 'extra'."),
  }),
  row("27 ours: one too many of an async one -> 400", ["POST", `${B}/second_method`, { bar: "k", extra: 1 }], 400, {
    error: E("Method 'second_method' takes no parameter 'extra'."),
  }),
  row("28 renamed", ["POST", `${B}/other-name`], 200, { json: "other" }),
  row("28 by its old name", ["POST", `${B}/renamed`], 400, { error: E("No handler for method renamed") }),
  row("29 an error of the framework", ["POST", `${B}/boom`], 500, { error: S("iron boom") }),
  row("30 any other error", ["POST", `${B}/plain`], 500, { error: S("plain boom") }),
  row("31 a conflict", ["POST", `${B}/conflict`], 409, { error: E("conf boom") }),
  row("32 an async one that fails", ["POST", `${B}/aboom`], 202, {
    lastError: "Async execution of aboom failed with error: plain boom",
  }),
  row("34 ours: the next one that fails takes its place", ["POST", `${B}/aconflict`], 202, {
    lastError: "Async execution of aconflict failed with error: conf boom",
  }),
  row("33 ours: the next async one clears it", ["POST", `${B}/second_method`, { bar: "k" }], 202, { lastError: null }),
  row("35 ours: no JSON -> 400", ["POST", `${B}/echo`, "{bad"], 400, { ...HTTP, error: E("The body is not JSON") }),
  row("36 ours: JSON that is called a text -> 415", ["POST", `${B}/echo`, KW], 415, {
    ...HTTP,
    contentType: "text/plain",
    error: E("the body's Content-Type must be application/json"),
  }),
  row("37 ours: a form -> 415", ["POST", `${B}/echo`, "a=1"], 415, {
    ...HTTP,
    contentType: "application/x-www-form-urlencoded",
    error: E("the body's Content-Type must be application/json"),
  }),
  ...["[1,2]", '"abc"', "5"].map((body) =>
    row(`38 ours: ${body} -> 400`, ["POST", `${B}/echo`, body], 400, {
      ...HTTP,
      error: E("The body is no JSON object"),
    }),
  ),
  row("39 null", ["POST", `${B}/echo`, "null"], 200, { ...HTTP, json: echoed("POST", {}) }),
  row("40 another parameter", ["POST", `${B}/echo?x=1`], 400, { ...HTTP, error: E("Unexpected arguments: x") }),
  row("41 ours: method in the body is an argument", ["POST", `${B}?method=echo`, { method: "x" }], 200, {
    json: echoed("POST", { method: "x" }),
  }),
  ...["http_method", "task"].map((name) =>
    row(`42 ours: ${name} is reserved -> 400`, ["POST", `${B}/echo`, { [name]: 1 }], 400, {
      error: E(`The parameter '${name}' is reserved: no method can take it`),
    }),
  ),
  ...["node_ident", "data"].map((name) =>
    row(`43 ${name} is passed on`, ["POST", `${B}/echo`, { [name]: "z" }], 200, {
      json: echoed("POST", { [name]: "z" }),
    }),
  ),
  row("a name that two drivers have", ["POST", `${B}/shared_name`], 400, {
    error: E("Several drivers have a method shared_name: call sample.shared_name or misbehaving.shared_name"),
  }),
  row("a name that two drivers have, of one of them", ["POST", `${B}/misbehaving.shared_name`], 200, {
    json: "misbehaving",
  }),
  row("a name that one driver has, of another one", ["POST", `${B}?method=misbehaving.echo`], 400, {
    error: E('No handler for method "misbehaving.echo"'),
  }),
  row("an integer that has lost digits", ["POST", `${B}/echo`, '{"a":[9007199254740993]}'], 400, {
    ...HTTP,
    error: E(
      "The arguments cannot be passed on: a.0 is an integer of 2^53 or more, which may have lost digits: give it as a text",
    ),
  }),
  row("half of a surrogate pair", ["POST", `${B}/echo`, '{"a":"\\ud800"}'], 400, {
    ...HTTP,
    error: E("The arguments cannot be passed on: a contains a surrogate without its pair, which UTF-8 does not have"),
  }),
  row("a property __proto__", ["POST", `${B}/echo`, '{"a":{"__proto__":1}}'], 400, {
    ...HTTP,
    error: E("The arguments cannot be passed on: a has a property __proto__, which not every decoder keeps"),
  }),
  row("a slash at the end", ["POST", `${B}/?method=echo`, KW], 200, { ...HTTP, json: echoed("POST", KW) }),
  row("a node that nobody knows", ["POST", "/v1/nodes/nobody/vendor_passthru/echo"], 404, {
    error: E("Node nobody could not be found."),
  }),
  row("no node's name", ["POST", "/v1/nodes/a%20b/vendor_passthru/echo"], 400, {
    ...HTTP,
    error: E("Expected UUID or name for node_ident: a b"),
  }),
  row("of a driver", ["POST", `${C}/d_echo`, KW], 200, { json: echoed("POST", KW) }),
  row("of a driver, in the query", ["PUT", `${C}?method=d_echo`, KW], 200, { json: echoed("PUT", KW) }),
  row("of a driver, nothing", ["POST", `${C}/d_none`], 200, { json: null }),
  row("of a driver, async", ["POST", `${C}/d_async`], 202),
  row("of a driver, failing", ["POST", `${C}/d_boom`], 500, { error: S("driver boom") }),
  row("of a driver, a node's", ["POST", `${C}/echo`], 400, { error: E("No handler for method echo") }),
  row("of no driver", ["POST", "/v1/drivers/none/vendor_passthru/x"], 404, {
    error: E("The driver 'none' is unknown."),
  }),
  row("of a driver with a catch-all", ["POST", "/v1/drivers/legacy/vendor_passthru/any", KW], 200, {
    json: { method: "any", args: KW },
  }),
];

/** Returns the gRPC call that corresponds to the row. */
export function grpcCallOf({ send: [httpMethod, path, args] }: Row) {
  const url = new URL(path, "http://director");
  const [, , kind, name = "", , inPath] = url.pathname.split("/");
  const target: MethodTarget = {
    target: kind === "nodes" ? { $case: "nodeId", value: name } : { $case: "driver", value: name },
  };
  return {
    target,
    httpMethod: HttpMethod[httpMethod as keyof typeof HttpMethod],
    method: inPath ?? url.searchParams.get("method") ?? "",
    args: args as object,
  };
}
