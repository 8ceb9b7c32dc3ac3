import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { LockServiceDefinition, type MethodTarget, VendorPassthruServiceDefinition } from "@diskmesh/api/director";
import { type HttpAnswer, HttpClient, httpUsers } from "@diskmesh/director/testing";
import {
  AbortedError,
  DriverError,
  InvalidArgumentError,
  type JsonObject,
  MIB_BYTES,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { LEGACY_DRIVER, MISBEHAVING_DRIVER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import type { Client } from "@diskmesh/rpc";
import { eventually, freePort, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { addHosts } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { repositoryFolder } from "./repository-folder.js";

const NODE = "host-1";
const B = `/v1/nodes/${NODE}/vendor_passthru`;
const C = "/v1/drivers/sample/vendor_passthru";
const USERS = { admin: ["bosh.admin"], reader: ["bosh.read"], caller: ["bosh.vendor-methods.call"], nobody: [] };

/** Envelopes of errors, as clients of Ironic get them. */
const E = (faultstring: string | RegExp) => ({ faultcode: "Client", faultstring });
const S = (faultstring: string | RegExp) => ({ faultcode: "Server", faultstring });

interface Row {
  readonly title: string;
  readonly send: readonly [verb: string, path: string, body?: unknown];
  readonly status: number;
  /** The value, or the error in its envelope. */
  readonly json?: unknown;
  readonly error?: { readonly faultcode: string; readonly faultstring: string | RegExp };
  /** The node's last error once the call has ended. */
  readonly lastError?: string | null;
}

/** What comes with diskmesh, and a vendor's own beside it. */
const SHIPPED = [
  { package: "@diskmesh/drivers/disk-health", settings: { everyMs: 200, thresholds: { probeLatencyMs: 0 } } },
  { package: "@diskmesh/drivers/disk-identify", settings: { blinkMs: 20 } },
  { package: join(repositoryFolder, "deploy/example-driver"), settings: { slots: 60 } },
];

/** In all, and of them those that wait for a locked node. */
const CALLS = 1_000;
const WAITING = 100;

const PATIENCE = { timeoutMs: 120_000 };

const KW = { a: 1 };
const echoed = (http_method: string, kw: object) => ({ http_method, kw });
const row = (title: string, send: Row["send"], status: number, rest: Partial<Row> = {}): Row => ({
  title,
  send,
  status,
  ...rest,
});

/** The conformance table: what Ironic's API does, and, marked "ours", where this one differs on purpose. */
const ROWS: readonly Row[] = [
  row("1 async -> 202", ["POST", `${B}?method=second_method`, { bar: "kazoo" }], 202, { lastError: null }),
  row("2 its name in the path", ["POST", `${B}/second_method`, { bar: "kazoo" }], 202, { lastError: null }),
  row("3 sync -> 200 true", ["POST", `${B}?method=third_method_sync`, { bar: "meow" }], 200, { json: true }),
  row("4 sync -> 200 false", ["POST", `${B}?method=third_method_sync`, { bar: "x" }], 200, { json: false }),
  row("6 shared", ["POST", `${B}/fourth_shared`, { bar: "woof" }], 202),
  row("7 GET without a body", ["GET", `${B}?method=echo`], 200, { json: echoed("GET", {}) }),
  ...["POST", "PUT", "PATCH", "DELETE", "GET"].map((verb) =>
    row(`8-12 ${verb} with a body`, [verb, `${B}/echo`, KW], 200, { json: echoed(verb, KW) }),
  ),
  row("13 a verb declared in small letters", ["GET", `${B}/lower`], 200, { json: "lower" }),
  row("14 HEAD where it is listed", ["HEAD", `${B}/lower`], 200),
  row("15 TRACE", ["TRACE", `${B}/echo`], 400, { error: E("The method echo does not support HTTP TRACE") }),
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
  row("22 POST of no method", ["POST", B], 400, { error: E("Missing mandatory parameter: method") }),
  row("23 GET of no method", ["GET", B], 400, { error: E("Missing mandatory parameter: method") }),
  row("24 an empty name", ["POST", `${B}?method=`], 400, { error: E("Method not specified") }),
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
  row("33 ours: the next async one clears it", ["POST", `${B}/second_method`, { bar: "k" }], 202, { lastError: null }),
  row("35 ours: no JSON -> 400", ["POST", `${B}/echo`, "{bad"], 400, { error: E("The body is not JSON") }),
  row("37 ours: a form -> 400", ["POST", `${B}/echo`, "a=1"], 400, { error: E("The body is not JSON") }),
  ...["[1,2]", '"abc"', "5"].map((body) =>
    row(`38 ours: ${body} -> 400`, ["POST", `${B}/echo`, body], 400, { error: E("The body is no JSON object") }),
  ),
  row("39 null", ["POST", `${B}/echo`, "null"], 200, { json: echoed("POST", {}) }),
  row("40 another parameter", ["POST", `${B}/echo?x=1`], 400, { error: E("Unexpected arguments: x") }),
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
  row("a slash at the end", ["POST", `${B}/?method=echo`, KW], 200, { json: echoed("POST", KW) }),
  row("a node that nobody knows", ["POST", "/v1/nodes/nobody/vendor_passthru/echo"], 404, {
    error: E("Node nobody could not be found."),
  }),
  row("no node's name", ["POST", "/v1/nodes/a%20b/vendor_passthru/echo"], 400, {
    error: E('Expected UUID or name for node_ident: "a b"'),
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

describe("vendor passthru", function () {
  this.timeout(300_000);

  let mesh: TestMesh;
  let lockService: Client<typeof LockServiceDefinition>;
  let vendors: Client<typeof VendorPassthruServiceDefinition>;
  let http: (user: keyof typeof USERS) => HttpClient;

  before(async () => {
    const port = await freePort();
    const users = await httpUsers(USERS);
    const restart = { minDelayMs: 50, maxDelayMs: 200 };
    const drivers = [SAMPLE_DRIVER, LEGACY_DRIVER, MISBEHAVING_DRIVER].map((file) => ({ package: file }));
    mesh = await TestMesh.start({
      hosts: 2,
      devicesPerHost: 1,
      deviceSizeBytes: MIB_BYTES,
      overrides: {
        "disk-registry": { heartbeat: { intervalMs: 500, timeoutMs: 120_000, missedUntilSuspected: 200 } },
        director: {
          http: { listen: { port }, users, requestTimeoutMs: 120_000 },
          drivers: { drivers: drivers.slice(0, 2), restart },
        },
        "disk-agent": {
          drivers: {
            drivers: [drivers[0], drivers[2], ...SHIPPED],
            restart,
            limits: { turnProcessorMs: 300, syncTimeoutMs: 100_000 },
          },
        },
      },
    });
    lockService = mesh.group.client(LockServiceDefinition, "director");
    vendors = mesh.group.client(VendorPassthruServiceDefinition, "director");
    const clients = new Map<string, HttpClient>();
    http = (user) => {
      const known = clients.get(user) ?? new HttpClient(mesh.group.certificates, port, `${user}:pw-${user}`);
      clients.set(user, known);
      return known;
    };
    await eventually(() => addHosts(mesh), PATIENCE);
    for (const nodeId of mesh.hostIds)
      await eventually(async () => {
        const { methods } = await vendors.listMethods({ target: node(nodeId) });
        expect(methods.map(({ name }) => name)).to.include.members(["echo", "fine"]);
      });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const send = (verb: string, path: string, body?: unknown): Promise<HttpAnswer> => {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    return http("admin").send(verb, path, text === undefined ? {} : { body: text });
  };
  const faultOf = ({ body }: HttpAnswer): JsonObject => {
    const { error_message } = JSON.parse(body) as { readonly error_message: string };
    return JSON.parse(error_message) as JsonObject;
  };
  const state = async (nodeId = NODE) =>
    JSON.parse((await send("GET", `/v1/nodes/${nodeId}`)).body) as {
      readonly last_error: string | null;
      readonly reservation: string | null;
    };

  describe("over HTTPS", () => {
    for (const { title, send: sent, status, json, error, lastError } of ROWS)
      it(title, async () => {
        const answer = await send(...sent);
        expect(answer.status, answer.body).to.equal(status);
        expect(answer.headers["x-openstack-ironic-api-version"]).to.equal("1.115");
        if (json !== undefined) {
          expect(JSON.parse(answer.body)).to.deep.equal(json);
          expect(answer.headers["content-type"]).to.contain("application/json");
        }
        if (error !== undefined) expect(faultOf(answer)).to.deep.equal({ ...error, debuginfo: null });
        if (status !== 202) return;
        expect(answer.body).to.equal("");
        expect(answer.headers).not.to.have.property("content-type");
        const taskId = Number(String(answer.headers.location).split("/").at(-1));
        await ended(taskId);
        if (lastError !== undefined)
          await eventually(async () => expect(await state()).to.include({ last_error: lastError, reservation: null }));
      });

    it("44 nested too deep, or too long -> refused without an envelope", async () => {
      const deep = await send("POST", `${B}/echo`, `${'{"a":'.repeat(40)}1${"}".repeat(40)}`);
      expect(deep.status).to.equal(400);
      expect(JSON.parse(deep.body)).to.include({ faultcode: "Client" });
      expect(deep.body).to.contain("nested too deeply");
      const long = await send("POST", `${B}/echo`, JSON.stringify({ a: "x".repeat(1_100_000) }));
      expect(long.status).to.equal(413);
    });

    it("the listing -> methods by name, with schemas, a driver's without locks", async () => {
      const ofNode = JSON.parse((await send("GET", `${B}/methods`)).body);
      expect(ofNode.second_method).to.deep.include({
        async: true,
        attach: false,
        description: "takes a bar",
        http_methods: ["POST"],
        require_exclusive_lock: true,
        driver: "sample",
        scope: "call",
      });
      expect(ofNode.login.args_schema.properties.password).to.deep.equal({ type: "string", writeOnly: true });
      expect(ofNode.lower.http_methods).to.deep.equal(["GET", "HEAD"]);
      const ofDriver = JSON.parse((await send("GET", `${C}/methods`)).body);
      expect(ofDriver).to.have.property("d_echo");
      expect(ofDriver.d_echo).not.to.have.property("require_exclusive_lock");
    });

    it("scopes -> who may call what", async () => {
      const status = async (user: keyof typeof USERS, verb: string, path: string, body = "{}") =>
        (await http(user).send(verb, path, { body })).status;
      expect(await status("nobody", "GET", `${B}/methods`)).to.equal(403);
      expect(await status("reader", "GET", `${B}/str`)).to.equal(200);
      expect(await status("reader", "POST", `${B}/third_method_sync`, '{"bar":"meow"}')).to.equal(403);
      expect(await status("caller", "POST", `${B}/third_method_sync`, '{"bar":"meow"}')).to.equal(200);
      expect(await status("caller", "POST", `${B}/none`)).to.equal(403);
      const anonymous = await http("admin").send("GET", `${B}/methods`, { login: "" });
      expect([anonymous.status, anonymous.headers["www-authenticate"]]).to.deep.equal([
        401,
        'Basic realm="BOSH Director"',
      ]);
    });
  });

  describe("over gRPC", () => {
    const call = async (method: string, args: JsonObject = {}, more: object = {}) => {
      const { outcome } = await vendors.callMethod({ target: node(), method, args, ...more });
      return outcome;
    };

    it("a value, or a task with what the method answered", async () => {
      expect(await call("third_method_sync", { bar: "meow" })).to.deep.equal({ $case: "value", value: true });
      expect(await call("none")).to.deep.include({ $case: "value" });
      const outcome = await call("second_method", { bar: "x" }, { wait: true });
      expect(outcome?.$case === "task" && outcome.value).to.include({ state: "TASK_STATE_DONE", result: '"done"' });
    });

    it("errors -> their codes", async () => {
      await rejection(call("nope"), InvalidArgumentError, "No handler for method nope");
      await rejection(call("echo", {}, { httpMethod: "TRACE" }), InvalidArgumentError, "does not support HTTP TRACE");
      await rejection(call("third_method_sync"), InvalidArgumentError, "Parameter 'bar' not passed");
      await rejection(call("plain"), DriverError, "plain boom");
    });

    it("an argument that is secret -> in no event, task or error", async () => {
      await rejection(call("login", { user: "echo", password: "hunter2-secret" }), DriverError);
      await call("login", { user: "me", password: "hunter2-secret" });
      const listed = await eventually(async () => {
        const answer = await http("admin").send("GET", "/events");
        expect(answer.body).to.contain("sample.login on node host-1").and.to.contain("wrong password");
        return answer.body;
      });
      expect(listed).not.to.contain("hunter2");
      expect(mesh.process("director").logs).not.to.contain("hunter2");
      expect(mesh.process(NODE).logs).not.to.contain("hunter2");
    });

    it("a driver that fails -> its reason in the list of drivers", async () => {
      await rejection(call("exit"), DriverError, "exited with code 3");
      await eventually(async () => {
        const { drivers } = await vendors.listDrivers({ nodeId: NODE });
        expect(drivers.map(({ name, state }) => `${name} ${state}`)).to.deep.equal([
          "sample running",
          "misbehaving running",
          "disk-health running",
          "disk-identify running",
          "shelf running",
        ]);
      });
      expect(await call("fine")).to.deep.equal({ $case: "value", value: "fine" });
    });
  });

  describe("drivers for any host", () => {
    const deviceId = async (): Promise<string> => {
      const { devices } = await mesh.clients.registry.listDevices({ hostId: NODE });
      return devices[0]?.deviceId ?? "";
    };
    const call = async (method: string, more: object = {}) => {
      const args = { device_id: await deviceId(), ...more };
      return (await vendors.callMethod({ target: node(), method, httpMethod: "POST", args, wait: true })).outcome;
    };

    it("disk-health probes through the agent's descriptor, and says what the host lacks", async () => {
      const probed = await eventually(() => call("probe"));
      expect(probed?.$case === "value" && probed.value.latency_ms).to.be.above(0);
      await rejection(call("smart"), UnavailableError, "is a regular file: only a block device has a drive of its own");
      await rejection(call("io_statistics"), UnavailableError, "is a regular file");
    });

    it("a device beyond a threshold -> WARNING at the registry, with the reason", async () => {
      await eventually(async () => {
        const { device } = await mesh.clients.registry.getDevice({ deviceId: await deviceId() });
        expect(device?.health).to.equal("HEALTH_WARNING");
        expect(device?.healthMessage).to.match(/^half of the last \d reads took more than 0 ms/);
      });
    });

    it("disk-identify lets the activity light blink, and ends", async () => {
      const outcome = await call("identify", { duration_ms: 100 });
      expect(outcome?.$case === "task" && outcome.value.state).to.equal("TASK_STATE_DONE");
      expect(outcome?.$case === "task" && JSON.parse(outcome.value.result)).to.include({ by: "activity light" });
    });

    it("a vendor's own, from a folder", async () => {
      const answer = await send("GET", `${B}/slot_of`, { device_id: await deviceId() });
      expect([answer.status, answer.body]).to.deep.equal([200, '{"slot":1}']);
    });
  });

  it("the stock client -> lists methods of nodes and drivers and calls one, unchanged", async function () {
    if (!programs().has("baremetal")) skipBecause(this, "baremetal (PyPI python-ironicclient) is not on PATH");
    const baremetal = async (...words: readonly string[]): Promise<string> => {
      const ca = mesh.group.certificates.files("operator").caFile;
      const login = ["--os-auth-type", "http_basic", "--os-username", "admin", "--os-password", "pw-admin"];
      const at = ["--os-endpoint", `https://127.0.0.1:${http("admin").port}`, "--os-cacert", ca];
      const { stdout } = await promisify(execFile)("baremetal", [...login, ...at, ...words], {
        env: { PATH: process.env.PATH },
      });
      return stdout;
    };
    const listed = JSON.parse(await baremetal("node", "passthru", "list", NODE, "-f", "json")) as object[];
    expect(listed.find((each) => Object.values(each).includes("second_method"))).to.include({ Async: true });
    const called = await baremetal("node", "passthru", "call", NODE, "echo", "--arg", "k=v", "--arg", "n=5");
    expect(called).to.contain("'http_method': 'POST'").and.to.contain("'n': 5");
    expect(await baremetal("driver", "passthru", "list", "sample")).to.contain("d_echo");
  });

  describe("a locked node", () => {
    it("another call -> 409 with who holds it and since when; one that needs no lock goes on", async () => {
      const taskId = await sleeping(3_600_000);
      const refused = await send("POST", `${B}/none`);
      expect(refused.status).to.equal(409);
      expect(refused.headers["retry-after"]).to.equal("1");
      expect(faultOf(refused).faultstring).to.match(
        new RegExp(
          `^Node host-1 is locked by task ${taskId} \\(call sample.sleep_async on node host-1 for .*\\) since 20`,
        ),
      );
      await rejection(vendors.callMethod({ target: node(), method: "none" }), AbortedError, "is locked by");
      expect((await send("POST", `${B}/nope`)).status).to.equal(400);
      expect((await send("POST", `${B}/echo`)).status).to.equal(200);
      expect((await send("POST", "/v1/nodes/host-2/vendor_passthru/none")).status).to.equal(200);
      expect((await state()).reservation).to.equal(`task ${taskId}`);
      await mesh.clients.tasks.cancelTask({ taskId });
      expect((await ended(taskId)).state).to.equal("TASK_STATE_CANCELLED");
      expect((await send("POST", `${B}/none`)).status).to.equal(200);
    });

    it("calls that wait -> in their order, one at a time, while a free node is in nobody's way", async () => {
      const holder = await sleeping(3_600_000);
      const waiting: Promise<void>[] = [];
      const order: number[] = [];
      const queue = async (at: number): Promise<void> => {
        const args = { at };
        const { outcome } = await vendors.callMethod(
          { target: node(), method: "turn", args, wait: true },
          { deadlineMs: 240_000 },
        );
        expect(outcome).to.deep.equal({ $case: "value", value: { at, atOnce: 1 } });
        order.push(at);
      };
      for (let at = 0; at < WAITING; at++) {
        waiting.push(queue(at));
        // Each stands in line before the next one comes.
        await eventually(async () => expect(await inLine()).to.equal(at + 1));
      }
      const lanes = Array.from({ length: 10 }, async (_, lane) => {
        for (let at = lane; at < CALLS - WAITING; at += 10) {
          const target = node("host-2");
          const { outcome } = await vendors.callMethod({ target, method: "turn", args: { at }, wait: true });
          expect(outcome).to.deep.equal({ $case: "value", value: { at, atOnce: 1 } });
        }
      });
      await Promise.all(lanes);
      expect(order).to.deep.equal([]);
      await mesh.clients.tasks.cancelTask({ taskId: holder });
      await Promise.all(waiting);
      expect(order).to.deep.equal(Array.from({ length: WAITING }, (_, at) => at));
    });

    it("asynchronous calls that wait -> tasks, run in their order", async () => {
      const holder = await sleeping(3_600_000);
      const taskIds: number[] = [];
      for (let at = 0; at < 30; at++) {
        const answer = await send("POST", `${B}/turn_async?wait=true`, { at });
        expect(answer.status).to.equal(202);
        taskIds.push(Number(String(answer.headers.location).split("/").at(-1)));
      }
      await mesh.clients.tasks.cancelTask({ taskId: holder });
      const results = await Promise.all(taskIds.map(async (taskId) => JSON.parse((await ended(taskId)).result)));
      expect(results.map(({ atOnce }) => atOnce)).to.deep.equal(taskIds.map(() => 1));
      const turns = results.map(({ turn }) => turn as number);
      expect(turns).to.deep.equal([...turns].sort((a, b) => a - b));
    });
  });

  describe("whatever is killed", () => {
    it("the director -> the outcome of a call that went on is told by the next one", async () => {
      const taskId = await sleeping(1_500);
      await mesh.process("director").kill();
      await mesh.process("director").start();
      expect(await ended(taskId)).to.include({ state: "TASK_STATE_DONE", result: '"slept"' });
      expect(await state()).to.include({ reservation: null, last_error: null });
    });

    it("the director -> what its own driver had begun is not begun again, and nobody knows what it did", async () => {
      const { outcome } = await vendors.callMethod({
        target: { target: { $case: "driver", value: "sample" } },
        method: "d_sleep",
        args: { ms: 3_600_000 },
      });
      const taskId = outcome?.$case === "task" ? outcome.value.taskId : 0;
      await eventually(async () => {
        const { lines } = await mesh.clients.tasks.getTaskOutput({ taskId, type: "event" });
        expect(lines.join()).to.contain("Calling vendor method");
      });
      await mesh.process("director").kill();
      await mesh.process("director").start();
      const task = await ended(taskId);
      expect(task.state).to.equal("TASK_STATE_ERROR");
      expect(task.result).to.contain("the director ended while the method ran");
    });

    it("the agent -> the call is not begun again, its task says so, and so does the node", async () => {
      const taskId = await sleeping(3_600_000);
      await eventually(async () => {
        const { lines } = await mesh.clients.tasks.getTaskOutput({ taskId, type: "event" });
        expect(lines.join()).to.contain("Calling vendor method");
      });
      await mesh.process(NODE).kill();
      await mesh.process(NODE).start();
      const task = await ended(taskId);
      expect(task.state).to.equal("TASK_STATE_ERROR");
      expect(task.result).to.contain("the agent of node host-1 ended while the method ran");
      expect((await state()).last_error).to.contain("Async execution of sleep_async failed with error: the agent");
      await eventually(async () => expect((await send("POST", `${B}/none`)).status).to.equal(200));
    });
  });

  /** What is on PATH. */
  function programs(): ReadonlySet<string> {
    const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => existsSync(folder));
    return new Set(folders.flatMap((folder) => readdirSync(folder)));
  }

  /** Who waits for the lock of the node. */
  async function inLine(): Promise<number> {
    const { locks } = await lockService.listLocks({});
    return locks.find(({ type, resource }) => type === "node" && resource === NODE)?.waitingTaskIds.length ?? 0;
  }

  function node(nodeId = NODE): MethodTarget {
    return { target: { $case: "nodeId", value: nodeId } };
  }

  async function ended(taskId: number) {
    return eventually(async () => {
      const { task } = await mesh.clients.tasks.getTask({ taskId });
      if (task?.endedAt === undefined) throw new Error(`task ${taskId} is ${task?.state}`);
      return task;
    });
  }

  /** An async call that holds the node's lock, and runs. */
  async function sleeping(ms: number, nodeId = NODE): Promise<number> {
    const { outcome } = await vendors.callMethod({ target: node(nodeId), method: "sleep_async", args: { ms } });
    if (outcome?.$case !== "task") throw new Error("no task");
    const { taskId } = outcome.value;
    await eventually(async () => {
      const { task } = await mesh.clients.tasks.getTask({ taskId });
      expect(task?.state).to.equal("TASK_STATE_PROCESSING");
    });
    return taskId;
  }
});
