import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  CancelledError,
  DriverError,
  InvalidArgumentError,
  type Logger,
  NotFoundError,
  ResourceExhaustedError,
  TimeoutError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { DRIVER_LIMITS, type DriverCall, DriverHost, driversConfig, KeptCalls } from "./host.js";
import { LEGACY_DRIVER, MISBEHAVING_DRIVER, SAMPLE_DRIVER } from "./testing/index.js";

/** Limits that only misbehaviour reaches, however busy the machine is: times are processor times of the driver. */
const LIMITS = { maxMemoryMib: 64, maxOutputBytesPerSecond: 32_768 };
/** Limits of drivers that ignore a limit until they are killed, so that nothing that works may depend on them. */
const SHORT = { maxTurnProcessorMs: 2_000, cancelGraceMs: 300 };
/** Longer than a driver that is busy needs for SHORT on a busy machine. */
const CALL_TIMEOUT_MS = 300_000;

/** A service whose driver starts a child process and prints its pid. */
const SERVICE = `
import { DriverHost } from ${JSON.stringify(new URL("./host.js", import.meta.url))};
const log = { debug() {}, info() {}, warn() {}, error() {} };
const drivers = [{ package: ${JSON.stringify(MISBEHAVING_DRIVER)}, settings: {} }];
const host = new DriverHost({ drivers, random: Math.random, log });
await host.settled();
const rest = { httpMethod: "POST", nodeId: "", validateOnly: false, timeoutMs: 60_000, signal: new AbortController().signal };
const call = { kind: "node", method: "leave_child", args: { hidden: false, exits: false }, ...rest };
console.log((await host.call("misbehaving", call)).pid);
`;

function recordingLog() {
  const lines: { readonly level: string; readonly message: string; readonly [field: string]: unknown }[] = [];
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, message, ...fields });
  return {
    lines,
    log: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") } satisfies Logger,
  };
}

function newPromise<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((then) => {
    resolve = then;
  });
  return { promise, resolve };
}

async function startHost(drivers: readonly object[], limits: object = {}) {
  const { lines, log } = recordingLog();
  const host = new DriverHost({
    drivers: driversConfig.parse(drivers),
    limits: { ...DRIVER_LIMITS, ...LIMITS, ...limits, restart: { minDelayMs: 20, maxDelayMs: 50 } },
    random: Math.random,
    log,
  });
  await host.settled();
  const call = (name: string, method: string, more: Partial<DriverCall> = {}): Promise<unknown> =>
    host.call(name, {
      kind: "node",
      method,
      httpMethod: "POST",
      args: {},
      nodeId: "host-1",
      validateOnly: false,
      timeoutMs: CALL_TIMEOUT_MS,
      signal: new AbortController().signal,
      ...more,
    });
  return { host, call, lines };
}

describe("the host of drivers", () => {
  describe("a well-behaved driver", () => {
    let it_: Awaited<ReturnType<typeof startHost>>;
    before(async () => {
      const drivers = [{ package: SAMPLE_DRIVER }, { package: LEGACY_DRIVER }, { package: SAMPLE_DRIVER }];
      // A well-behaved driver may react late to a cancellation on a busy machine.
      it_ = await startHost(drivers, { cancelGraceMs: CALL_TIMEOUT_MS });
    });
    after(() => it_.host.close());

    it("is listed with inherited and overriding methods, verbs in upper case, and schemas", () => {
      const [sample] = it_.host.listings();
      const methods = Object.fromEntries(sample?.nodeMethods.map((method) => [method.name, method]) ?? []);
      expect(methods.inherited?.description).to.equal("as it was");
      expect(methods.overridden?.description).to.equal("of the sample");
      expect(methods.lower?.httpMethods).to.deep.equal(["GET", "HEAD"]);
      expect(methods).to.have.property("other-name");
      expect(methods).not.to.have.property("renamed");
      expect(methods.second_method?.schema).to.deep.include({ required: ["bar"], additionalProperties: false });
      expect(methods.login?.schema).to.have.nested.property("properties.password.writeOnly", true);
      expect(sample?.driverMethods.map(({ name }) => name)).to.include("d_echo");
    });

    it("with the name of an earlier driver is reported and not listed", () => {
      expect(it_.host.drivers().map(({ problem }) => problem)).to.deep.equal([
        "",
        "",
        "another driver has that name already",
      ]);
      expect(it_.host.listings().map(({ name }) => name)).to.deep.equal(["sample", "legacy"]);
      expect(it_.host.failed()?.why).to.equal(
        `driver ${SAMPLE_DRIVER} has failed: another driver has that name already`,
      );
    });

    it("runs the called method, and an override instead of the overridden method", async () => {
      expect(await it_.call("sample", "third_method_sync", { args: { bar: "meow" } })).to.equal(true);
      expect(await it_.call("sample", "overridden")).to.equal("sample");
      expect(await it_.call("sample", "none")).to.equal(null);
      expect(await it_.call("sample", "d_echo", { kind: "driver", args: { a: 1 } })).to.deep.equal({
        http_method: "POST",
        kw: { a: 1 },
      });
    });

    it("answers bytes unchanged, up to the limit of an answer", async () => {
      const bytes = (size: number): Promise<unknown> => it_.call("sample", "bytes", { args: { size } });
      expect(await bytes(256)).to.deep.equal(Buffer.from(Array.from({ length: 256 }, (_, at) => at)));
      expect(await bytes(0)).to.deep.equal(Buffer.alloc(0));
      const length = async (size: number) => ((await bytes(size)) as Buffer).length;
      expect(await length(1_048_576)).to.equal(1_048_576);
      await rejection(length(1_048_577), DriverError, "answered 1048577 bytes: the limit is 1048576 bytes");
    });

    it("lists a method with attach, and answers its text as bytes", async () => {
      const [sample] = it_.host.listings();
      const attached = sample?.nodeMethods.filter(({ attach }) => attach).map(({ name }) => name);
      expect(attached).to.deep.equal(["report"]);
      expect(await it_.call("sample", "report")).to.deep.equal(Buffer.from("caf\u00e9\n", "utf8"));
    });

    it("refuses wrong arguments by name without running the method, also when they are only validated", async () => {
      const wrong = (args: Record<string, unknown>, validateOnly = false) =>
        rejection(it_.call("sample", "third_method_sync", { args, validateOnly }), InvalidArgumentError);
      expect((await wrong({})).message).to.equal("Parameter 'bar' not passed to method 'third_method_sync'.");
      expect((await wrong({ bar: "meow", extra: 1 }, true)).message).to.contain("takes no parameter 'extra'");
      expect(await it_.call("sample", "third_method_sync", { args: { bar: "meow" }, validateOnly: true })).to.equal(
        null,
      );
    });

    it("fails with the text of whatever a method throws", async () => {
      await rejection(it_.call("sample", "plain"), DriverError, "plain boom");
      await rejection(it_.call("nobody", "plain"), NotFoundError, "unknown");
    });

    it("ends a cancelled or late call and keeps running", async () => {
      const abort = new AbortController();
      const call = it_.call("sample", "sleep", { args: { ms: 3_600_000 }, signal: abort.signal });
      abort.abort(new TimeoutError("nobody waits"));
      await rejection(call, TimeoutError, "nobody waits");
      const late = it_.call("sample", "sleep", { args: { ms: 3_600_000 }, timeoutMs: 1 });
      await rejection(late, TimeoutError, "did not return within 1 ms");
      expect(await it_.call("sample", "none")).to.equal(null);
    });

    it("starts a kept call once, and returns its outcome without secrets to each request", async () => {
      const kept = new KeptCalls();
      const file = join(temporaryFolder(), "noted");
      const of = { nodeId: "host-1", httpMethod: "POST", timeoutMs: 60_000 };
      const args = { file, password: "hunter2-secret" };
      const begun = kept.begin(it_.host, "a-1", "sample", { ...of, kind: "node", method: "login_async", args });
      const told = { failed: false, text: '"logged in with <redacted>"' };
      expect(await begun.ended).to.deep.equal(told);
      expect(kept.get("a-1")).to.equal(begun);
      expect(begun.outcome).to.deep.equal(told);
      expect(readFileSync(file, "utf8").split("\n")).to.have.length(2);
      kept.forget("a-1");
      expect(kept.get("a-1")).to.equal(undefined);
    });

    it("reports a cancelled kept call as having an unknown effect", async () => {
      const kept = new KeptCalls();
      const of = { nodeId: "host-1", httpMethod: "POST", timeoutMs: 60_000 };
      const sleep = { ...of, kind: "node", method: "sleep", args: { ms: 3_600_000 } } as const;
      const { ended } = kept.begin(it_.host, "a-2", "sample", sleep);
      kept.cancel("a-2");
      kept.cancel("never begun");
      expect(await ended).to.deep.equal({
        failed: true,
        reason: "CANCELLED",
        message: "the method was cancelled: its outcome is not known",
      });
    });

    it("tells its progress, and what it left when it was cancelled, both without secrets", async () => {
      const abort = new AbortController();
      const { promise: told, resolve: onProgress } = newPromise<unknown>();
      const more = { args: { password: "hunter2-secret" }, signal: abort.signal, onProgress };
      const flashing = it_.call("sample", "flash", more);
      const cancelled = "the method was cancelled: stopped before anything was written with <redacted>";
      const ended = rejection(flashing, CancelledError, cancelled);
      expect(await told).to.deep.equal({ percent: 41, text: "writes bank 2 with <redacted>" });
      abort.abort(new CancelledError("nobody wants it"));
      await ended;
    });

    it("tells what it left when its time is over", async () => {
      const late = it_.call("sample", "flash", { timeoutMs: 1 });
      const told = "flash did not return within 1 ms, and was cancelled: stopped before anything was written";
      await rejection(late, TimeoutError, told);
    });

    it("has the time limits of its methods, and the defaults of their kinds", () => {
      const times = ["flash", "sleep_async", "sleep", "nobody"].map((name) =>
        it_.host.timeoutOf("sample", "node", name),
      );
      expect(times).to.deep.equal([3_000_000, 3_600_000, 20_000, 20_000]);
    });

    it("runs without the environment and working folder of the service, with its package as argument", async () => {
      const seen = (await it_.call("sample", "surroundings")) as { env: object; argv: string[]; cwd: string };
      expect(Object.keys(seen.env)).to.have.members(["PATH", "LANG", "DISKMESH_DRIVER_PROCESS"]);
      expect({ argv: seen.argv, cwd: seen.cwd }).to.deep.equal({ argv: [SAMPLE_DRIVER], cwd: "/" });
    });

    it("handles every method with a LegacyDriver, and logs a warning for each call", async () => {
      expect(await it_.call("legacy", "anything", { args: { a: 1 } })).to.deep.equal({
        method: "anything",
        args: { a: 1 },
      });
      await it_.call("sample", "overridden");
      const warnings = it_.lines.filter(({ message }) => message.includes("deprecated"));
      expect(warnings.map(({ driver, method }) => `${driver} ${method}`)).to.deep.equal(["legacy anything"]);
    });
  });

  describe("a misbehaving driver", () => {
    let it_: Awaited<ReturnType<typeof startHost>>;
    before(async () => {
      it_ = await startHost([{ package: MISBEHAVING_DRIVER }, { package: SAMPLE_DRIVER }], SHORT);
    });
    after(() => it_.host.close());

    const OFTENEST = ["late_throw", "busy", "deaf"];
    const rows: readonly (readonly [method: string, reason: RegExp, timeoutMs?: number])[] = [
      ["late_throw", /nobody caught: Error: thrown late/],
      ["exit", /exited with code 3/],
      ["busy", /kept its event loop busy/],
      ["busy_later", /kept its event loop busy/],
      ["flood", /wrote more than 32768 bytes within a second/],
      ["flood_answers", /sent more than/],
      ["memory", /memory/],
      ["deaf", /did not return within 50 ms/, 50],
    ];
    for (const [method, reason, timeoutMs = CALL_TIMEOUT_MS] of rows)
      it(`${method}: is reported, affects no other driver, and is restarted`, async function () {
        if (!OFTENEST.includes(method)) leaveToVerify(this);
        const told = it_.lines.length;
        const call = it_.call("misbehaving", method, { timeoutMs });
        if (method === "busy_later") expect(await call).to.equal("soon");
        else
          expect((await rejection<Error>(call, method === "deaf" ? TimeoutError : DriverError)).message).to.match(
            reason,
          );
        const failed = await eventually(() => {
          const line = it_.lines.slice(told).find(({ message }) => message.startsWith("driver failed"));
          if (line === undefined) throw new Error("the log has not said so yet");
          return line;
        });
        expect(failed).to.include({ level: "error", driver: "misbehaving" });
        expect(failed.reason).to.match(reason);
        expect(await it_.call("sample", "none")).to.equal(null);
        await eventually(async () => (await it_.call("misbehaving", "fine")) === "fine");
      });

    it("has secret arguments that it prints, also late, or throws redacted in the log and in its problem", async () => {
      const told = it_.lines.length;
      const printed = () => it_.lines.slice(told);
      await it_.call("misbehaving", "blab", { args: { password: "hunter2-\u00e9-secret", thrown: false } });
      await eventually(() =>
        expect(printed().map(({ line }) => line)).to.include('{"password":"<redacted>"} was used'),
      );
      expect(printed().map(({ line }) => line)).to.include("logging in with <redacted>");
      await it_.call("misbehaving", "blab", { args: { password: "hunter3-\u00e9-secret", thrown: true } });
      await eventually(() =>
        expect(printed().map(({ message }) => message)).to.include("driver failed, restart scheduled"),
      );
      expect(JSON.stringify(printed()))
        .to.contain("no login with <redacted>")
        .and.not.match(/hunter/);
      await eventually(async () => (await it_.call("misbehaving", "fine")) === "fine");
    });

    it("has an answer that JSON would change refused, with the place of the value", async () => {
      const odd = (what: string): Promise<unknown> => it_.call("misbehaving", "odd", { args: { what } });
      for (const [what, says] of [
        ["Map", "list.0 is of type Map"],
        ["Set", "list.0 is of type Set"],
        ["generator", "list.0 is of type Generator"],
        ["bytes", "list.0 is of type Uint8Array"],
        ["NaN", "list.0 is NaN"],
        ["infinity", "list.0 is Infinity"],
        ["integer", "list.0 is an integer of 2^53 or more"],
        ["bigint", "list.0 is of type bigint"],
      ] as const)
        await rejection(odd(what), DriverError, `the method's answer is not JSON: ${says}`);
      expect(await odd("date")).to.deep.equal({ list: ["1970-01-01T00:00:00.000Z"] });
    });

    it("has a too long answer refused", async () => {
      await rejection(it_.call("misbehaving", "huge"), DriverError, "the limit is 1048576 bytes");
    });
  });

  it("has calls beyond its concurrency limit refused, with a retry time", async () => {
    const { host, call } = await startHost([{ package: SAMPLE_DRIVER }], { maxConcurrentCalls: 1 });
    const first = call("sample", "sleep", { args: { ms: 60_000 } });
    const { retryAfterMs } = await rejection(
      call("sample", "none"),
      ResourceExhaustedError,
      "1 calls of the driver run",
    );
    expect(retryAfterMs).to.equal(1_000);
    await host.close();
    await rejection(first, DriverError);
  });

  describe("a child process of a driver", () => {
    const isThere = (pid: number): boolean => {
      try {
        return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.[0] !== "Z";
      } catch {
        return false;
      }
    };
    const childOf = async (call: Promise<unknown>): Promise<number> => Number(((await call) as { pid: number }).pid);

    it("ends with the driver, also in its own session", async () => {
      const { host, call } = await startHost([{ package: MISBEHAVING_DRIVER }]);
      const pid = await childOf(call("misbehaving", "leave_child", { args: { hidden: false, exits: false } }));
      expect(isThere(pid)).to.equal(true);
      await host.close();
      await eventually(() => expect(isThere(pid)).to.equal(false));
    });

    it("that escaped with the driver's pipes does not keep the driver from ending, failing its calls and restarting", async () => {
      const { host, call } = await startHost([{ package: MISBEHAVING_DRIVER }]);
      const under = call("misbehaving", "deaf");
      const pid = await childOf(call("misbehaving", "leave_child", { args: { hidden: true, exits: true } }));
      try {
        await rejection(under, DriverError, "exited with code 3");
        await eventually(async () => expect(await call("misbehaving", "fine")).to.equal("fine"));
      } finally {
        // A control group has ended the process; without control groups it escapes.
        if (isThere(pid)) process.kill(pid, "SIGKILL");
        await host.close();
      }
    });

    it("ends when the service is killed", async () => {
      const service = spawn(process.execPath, ["--input-type=module", "-e", SERVICE], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [text] = (await once(service.stdout, "data")) as [Buffer];
      const pid = Number(text);
      expect(isThere(pid)).to.equal(true);
      service.kill("SIGKILL");
      await eventually(() => expect(isThere(pid)).to.equal(false));
    });

    const counted = { maxProcessorShare: 0, maxProcessorBurstMs: 2_000 };
    for (const [method, reason, limits] of [
      ["busy_thread", /used 2000 ms of processor time above the allowed share of 0 processors/, counted],
      ["busy_child", /used 2000 ms of processor time above the allowed share of 0 processors/, counted],
      ["memory_child", /it and its child processes use \d+ MiB of memory/, {}],
    ] as const)
      it(`counts toward the driver's limits: ${method}`, async function () {
        if (method === "busy_thread") leaveToVerify(this);
        const { host, call } = await startHost([{ package: MISBEHAVING_DRIVER }], limits);
        expect((await rejection(call("misbehaving", method), DriverError)).message).to.match(reason);
        await host.close();
      });
  });

  it("reports why a driver cannot be loaded, while other drivers serve", async () => {
    const { host, call } = await startHost([
      { package: MISBEHAVING_DRIVER, settings: { onLoad: "throw" } },
      { package: "@diskmesh/no-such-driver" },
      { package: MISBEHAVING_DRIVER, settings: { wrong: true } },
      { package: SAMPLE_DRIVER },
    ]);
    expect(host.drivers().map(({ state }) => state)).to.deep.equal(["failed", "failed", "failed", "running"]);
    const [first, second, third] = host.drivers().map(({ problem }) => problem);
    expect(first).to.contain("no such hardware");
    expect(second).to.contain("@diskmesh/no-such-driver");
    expect(third).to.contain("the driver's settings are wrong");
    expect(await call("sample", "none")).to.equal(null);
    await host.close();
  });

  it("runs the example driver from another folder, with its imports resolved", async () => {
    const copied = temporaryFolder();
    cpSync(new URL("../../../deploy/example-driver", import.meta.url), copied, { recursive: true });
    const { host, call } = await startHost([{ package: copied, settings: { slots: 60 } }]);
    expect(host.drivers()[0]?.problem).to.equal("");
    expect(await call("shelf", "models", { kind: "driver" })).to.deep.equal({ models: ["S24", "S60"] });
    await host.close();
  });

  it("loads a package that has `exports` and no `main`", async () => {
    const copied = temporaryFolder();
    cpSync(new URL("../../../deploy/example-driver/shelf.js", import.meta.url), join(copied, "shelf.js"));
    const described = { name: "@example/shelf", type: "module", exports: { ".": { import: "./shelf.js" } } };
    writeFileSync(join(copied, "package.json"), JSON.stringify(described));
    const { host } = await startHost([{ package: copied }]);
    expect(host.drivers()[0]).to.include({ name: "shelf", problem: "" });
    await host.close();
  });

  it("does not load a driver whose method may take longer than the operator allows", async () => {
    const file = join(temporaryFolder(), "slow.mjs");
    writeFileSync(
      file,
      `import { Driver, nodeMethod } from "@diskmesh/driver";
      export default class Slow extends Driver {
        static driverName = "slow";
        self_test = nodeMethod({ httpMethods: ["POST"], async: true, description: "", timeoutMs: 7_200_000 }, () => "well");
      }`,
    );
    const { host } = await startHost([{ package: file }, { package: file, maxTimeoutMs: 7_200_000 }]);
    const [refused, loaded] = host.drivers();
    expect(refused?.problem).to.contain(
      "its method self_test may take 7200000 ms, and `maxTimeoutMs` of its config is 3600000",
    );
    expect([loaded?.state, host.timeoutOf("slow", "node", "self_test")]).to.deep.equal(["running", 7_200_000]);
    await host.close();
  });

  it("ends a driver that does not load in time", async () => {
    const { host } = await startHost([{ package: MISBEHAVING_DRIVER, settings: { onLoad: "hang" } }], {
      loadTimeoutMs: 2_000,
    });
    expect(host.drivers()[0]?.problem).to.contain("did not load within 2000 ms");
    await host.close();
  });

  it("leaves no driver process after close", async () => {
    const { host, call } = await startHost([{ package: SAMPLE_DRIVER }]);
    const pid = Number(((await call("sample", "surroundings")) as { pid: number }).pid);
    await host.close();
    expect(() => readFileSync(`/proc/${pid}/stat`)).to.throw("ENOENT");
  });
});
