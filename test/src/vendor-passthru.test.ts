import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { LockServiceDefinition, type MethodTarget, VendorPassthruServiceDefinition } from "@diskmesh/api/director";
import { type HttpAnswer, HttpClient, httpUsers } from "@diskmesh/director/testing";
import {
  AbortedError,
  AlreadyExistsError,
  DriverError,
  InvalidArgumentError,
  type JsonObject,
  MIB_BYTES,
  NotFoundError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { LEGACY_DRIVER, MISBEHAVING_DRIVER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import type { Client } from "@diskmesh/rpc";
import { eventually, freePort, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { addHosts } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { B, C, grpcCallOf, NODE, ROWS } from "./passthru/rows.js";
import { repositoryFolder } from "./repository-folder.js";

const USERS = { admin: ["bosh.admin"], reader: ["bosh.read"], caller: ["bosh.vendor-methods.call"], nobody: [] };

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
          drivers: { drivers: [...drivers.slice(0, 2), SHIPPED[2]], restart },
        },
        "disk-agent": {
          drivers: {
            drivers: [drivers[0], drivers[2], ...SHIPPED],
            restart,
            limits: { maxTurnProcessorMs: 300, syncTimeoutMs: 100_000 },
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

  const send = (
    verb: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<HttpAnswer> => {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    return http("admin").send(verb, path, { headers, ...(text !== undefined && { body: text }) });
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
    for (const { title, send: sent, contentType, status, json, error, lastError } of ROWS)
      it(title, async () => {
        const answer = await send(...sent, contentType === undefined ? {} : { "content-type": contentType });
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
        if (lastError === undefined) return;
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

    const ERRORS = new Map([
      [400, InvalidArgumentError],
      [404, NotFoundError],
      [409, AlreadyExistsError],
      [500, DriverError],
    ]);
    for (const row of ROWS.filter(({ isOfHttp }) => !isOfHttp))
      it(row.title, async () => {
        const { status, json, error, lastError } = row;
        const answered = vendors.callMethod({ ...grpcCallOf(row), wait: true });
        if (error !== undefined)
          return void (await rejection(answered, ERRORS.get(status) ?? Error, error.faultstring));
        const { outcome } = await answered;
        if (status === 200) {
          expect(outcome?.$case).to.equal("value");
          if (json !== undefined) expect(outcome?.value ?? null).to.deep.equal(json);
          return;
        }
        expect(outcome?.$case === "task" && outcome.value.endedAt).not.to.equal(undefined);
        if (lastError === undefined) return;
        const { lastError: told, holder } = await vendors.getNode({ nodeId: NODE });
        expect([told, holder]).to.deep.equal([lastError ?? "", undefined]);
      });

    it("what the method of a task answered -> its result", async () => {
      const outcome = await call("second_method", { bar: "x" }, { wait: true });
      expect(outcome?.$case === "task" && outcome.value).to.include({ state: "TASK_STATE_DONE", result: '"done"' });
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

  it("the stock client -> lists and calls methods of nodes and drivers as README shows", async function () {
    if (!programs().has("baremetal")) skipBecause(this, "baremetal (PyPI python-ironicclient) is not on PATH");
    const env = {
      PATH: process.env.PATH,
      OS_AUTH_TYPE: "http_basic",
      OS_USERNAME: "admin",
      OS_PASSWORD: "pw-admin",
      OS_ENDPOINT: `https://127.0.0.1:${http("admin").port}`,
      OS_CACERT: mesh.group.certificates.files("operator").caFile,
    };
    const shown = shownCommands(readFileSync(join(repositoryFolder, "README.md"), "utf8"));
    expect(shown.map(({ command }) => command.split(" ").slice(0, 3).join(" "))).to.include.members([
      "node passthru list",
      "node passthru call",
      "driver passthru list",
      "driver passthru call",
    ]);
    for (const { command, output } of shown) {
      const words = command.replaceAll("host-1-d1", "host-1-device-1").split(" ");
      const { stdout, stderr } = await promisify(execFile)("baremetal", words, { env }).catch((error) => error);
      const said = linesOf(`${stdout}${stderr}`);
      // The node under test has more methods than README shows.
      for (const line of linesOf(output)) expect(said, command).to.include(line);
      // Python may have warnings of its own.
      if (output === "") expect(linesOf(stdout), command).to.deep.equal([]);
    }
    expect((await send("GET", "/v1/drivers/shelf/vendor_passthru/models")).body).to.equal('{"models":["S24","S60"]}');
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

    it("the director -> a call that waits, and has secret arguments, is not made", async () => {
      const holder = await sleeping(3_600_000);
      const file = join(mesh.group.folder, "noted");
      const args = { file, password: "hunter2-secret" };
      const answer = await send("POST", `${B}/login_async?wait=true`, args);
      const taskId = Number(String(answer.headers.location).split("/").at(-1));
      await mesh.process("director").kill();
      const stored = await textsIn(mesh.group.dataFolder("director"));
      expect(stored).to.contain(file).and.not.to.contain("hunter2");
      await mesh.process("director").start();
      await mesh.clients.tasks.cancelTask({ taskId: holder });
      const task = await ended(taskId);
      expect(task.state).to.equal("TASK_STATE_ERROR");
      expect(task.result).to.match(
        /^method login_async was not called: secret arguments \(password\) are written nowhere/,
      );
      expect(existsSync(file)).to.equal(false);
      const { outcome } = await vendors.callMethod({ target: node(), method: "login_async", args, wait: true });
      expect(outcome?.$case === "task" && outcome.value.result).to.equal('"logged in with <redacted>"');
      expect(readFileSync(file, "utf8").trim()).to.equal(createHash("sha256").update(args.password).digest("hex"));
      expect(mesh.process("director").logs + mesh.process(NODE).logs).not.to.contain("hunter2");
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

  /** Of the stock client, with what it prints. */
  function shownCommands(text: string): { readonly command: string; readonly output: string }[] {
    return [...text.matchAll(/^\$ baremetal (.*)\n((?:[^$`].*\n)*)/gm)].map(([, command = "", output = ""]) => ({
      command,
      output,
    }));
  }

  /** Neither how wide a table is, nor how long something took, is the same each time. */
  function linesOf(text: string): string[] {
    const rows = text.split("\n").filter((line) => line.trim() !== "" && !/^[+-]+$/.test(line));
    return rows.map((line) =>
      line
        .trim()
        .replace(/ +/g, " ")
        .replace(/\d+(\.\d+)?(, \d+(\.\d+)?)*/g, "N"),
    );
  }

  /** Whatever the files of a folder hold. */
  async function textsIn(folder: string): Promise<string> {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    return (await Promise.all(files.map((file) => readFile(file, "latin1")))).join();
  }

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
