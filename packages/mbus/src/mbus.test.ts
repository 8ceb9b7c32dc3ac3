import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CancelledError,
  InvalidArgumentError,
  NotImplementedError,
  ResourceExhaustedError,
  silentLogger,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { type Context, type ContextManager, context, propagation, ROOT_CONTEXT } from "@opentelemetry/api";
import { expect } from "chai";
import { AgentClient } from "./agent-client.js";
import { AgentError } from "./agent-error.js";
import { watchHeartbeats } from "./heartbeats.js";
import { MbusScene, RUNNING_SIZE_BYTES, TRACE, timing, until } from "./testing/mbus-scene.js";

/** Minimal context manager in place of a telemetry SDK's. */
class AsyncLocalContext implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();
  active = () => this.#storage.getStore() ?? ROOT_CONTEXT;
  with: ContextManager["with"] = (context, work, self, ...args) =>
    this.#storage.run(context, () => work.apply(self as never, args));
  bind = <T>(_context: Context, target: T) => target;
  enable = () => this;
  disable = () => this;
}

describe("mbus", () => {
  const scene = MbusScene.forAllTests();

  describe("secrets in arguments", () => {
    const CANARY = "canary-h1dden";
    const hint = { path: "/dev/sdb", iscsi_settings: { username: "u", password: CANARY, target: "iqn" } };
    const CALLS: [string, unknown[]][] = [
      ["add_persistent_disk", ["disk-1", hint]],
      ["add_dynamic_disk", ["disk-1", `iqn;${CANARY}`]],
      ["update_settings", [{ mbus: { urls: [`nats://u:${CANARY}@h`] }, blobstores: [{ options: { key: CANARY } }] }]],
    ];
    for (const [method, args] of CALLS)
      it(`of ${method} reach the agent, but no log and no error shows them when the failing agent repeats them`, async () => {
        const lines: string[] = [];
        const line = (fields: object, message: string) => lines.push(`${message} ${JSON.stringify(fields)}`);
        const log = { debug: line, info: line, warn: line, error: line };
        scene.client.close();
        await scene.agentServer.close();
        scene.startAgent(log);
        scene.client = new AgentClient({ nats: scene.director, directorId: "process-2", ...timing, log });
        await scene.agentReady();
        const error = await rejection(scene.client.call("host-1", method, args), AgentError);
        expect(scene.received.at(-1)).to.deep.equal(args);
        expect(error).to.be.instanceOf(AgentError);
        expect(error.agentMessage).to.match(/cannot do it with .*<redacted>/);
        const written = lines.join("\n");
        expect(written)
          .to.include(`agent request sent {"agentId":"host-1","method":"${method}"`)
          .and.include("failed {");
        expect(`${written} ${error.stack} ${JSON.stringify(error)}`).not.to.include(CANARY);
      });

    it("are removed from the reply and the kept task result when a method returns them", async () => {
      const result = await scene.client.call("host-1", "mount_disk", ["disk-1", hint]);
      expect(JSON.stringify(result)).to.include("<redacted>").and.include("disk-1").and.not.include(CANARY);
    });
  });

  it("writes an audit line with caller, subject and outcome for each request that may change something, and none for reads", async () => {
    const lines: Record<string, unknown>[] = [];
    await scene.agentServer.close();
    scene.startAgent({ ...silentLogger, info: (fields) => lines.push(fields as Record<string, unknown>) });
    await scene.agentReady();
    await scene.client.call("host-1", "mount_disk", ["disk-1", { password: "s3cret" }]);
    await rejection(scene.client.call("host-1", "fail", []), AgentError);
    await scene.client.call("host-1", "echo", ["disk-2"]);
    const told = lines.filter(({ audit }) => audit === "call");
    const caller = "director process-1";
    expect(told.map(({ method, status }) => `${method} ${status}`)).to.deep.equal([
      "mbus mount_disk OK",
      "mbus fail failed",
    ]);
    expect(told[0]).to.deep.include({ caller, request: { thing: "disk-1" } });
    expect(JSON.stringify(lines)).to.not.contain("s3cret");
  });

  describe("a call", () => {
    it("gives the method's result, with all arguments", async () => {
      expect(await scene.client.call("host-1", "echo", ["a", { b: [1] }, null])).to.deep.equal(["a", { b: [1] }, null]);
      expect(await scene.client.call("host-1", "ping", [])).to.equal("pong");
      expect(await scene.client.call("host-1", "nothing", [])).to.equal(null);
    });

    it("of a long method takes one request when the method ends within answerWithinMs", async () => {
      const asked: string[] = [];
      const watching = scene.agent.subscribe("agent.host-1", ({ data }) =>
        asked.push(JSON.parse(`${Buffer.from(data)}`).method),
      );
      await eventually(async () => {
        await scene.client.call("host-1", "ping", []);
        expect(asked).to.include("ping");
      });
      const within = { answerWithinMs: timing.requestTimeoutMs / 2 };
      expect(await scene.client.call("host-1", "long", [], within)).to.deep.equal({ done: true });
      const error = await rejection(scene.client.call("host-1", "long_fail", [], within), AgentError);
      expect(error.agentMessage).to.equal("Action Failed long_fail: no link");
      expect(asked.filter((method) => method !== "ping")).to.deep.equal(["long", "long_fail"]);
      expect(await scene.client.call("host-1", "long", [], { answerWithinMs: 1 })).to.deep.equal({ done: true });
      expect(asked).to.include("get_task");
      watching.unsubscribe();
    });

    it("of a long method polls its task until it ends", async () => {
      expect(await scene.client.call("host-1", "long", [])).to.deep.equal({ done: true });
    });

    it("fails with the agent's text", async () => {
      const error = await rejection(scene.client.call("host-1", "fail", []), AgentError);
      expect(error.agentMessage).to.equal("Action Failed fail: the disk is on fire");
    });

    it("fails with the text of a long method", async () => {
      const error = await rejection(scene.client.call("host-1", "long_fail", []), AgentError);
      expect(error.agentMessage).to.match(/^Action Failed get_task: Task [0-9a-f-]+ result: no link$/);
    });

    it("with too few arguments reports the number required", async () => {
      const error = await rejection(scene.client.call("host-1", "echo", []), AgentError);
      expect(error.agentMessage).to.equal("Action Failed echo: Not enough arguments, expected 1, got 0");
    });

    for (const method of ["nobody_knows", "constructor", "__proto__"])
      it(`of the unknown method ${method} fails, or is ignored`, async () => {
        await rejection(scene.client.call("host-1", method, []), NotImplementedError);
        expect(await scene.client.call("host-1", method, [], { unknownMethodIs: "ignored" })).to.equal(undefined);
      });

    it("whose result is above 1 MiB fails", async () => {
      const error = await rejection(scene.client.call("host-1", "huge", []), AgentError);
      expect(error.agentMessage).to.equal("Response exceeded maximum allowed length");
    });

    it("whose arguments are above 1 MiB is not sent", async () => {
      await rejection(scene.client.call("host-1", "echo", ["x".repeat(2 ** 20)]), InvalidArgumentError);
    });

    it("to a malformed agent id is not sent", async () => {
      for (const id of ["", "*", "host-1.x", ">"])
        expect(await rejection(scene.client.call(id, "ping", [])), id).to.be.instanceOf(InvalidArgumentError);
    });

    it("to a disconnected agent fails at once with outcome not_done", async () => {
      const startedAtMs = performance.now();
      const error = await rejection(scene.client.call("host-2", "ping", []));
      expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "not_done");
      expect(performance.now() - startedAtMs).to.be.below(timing.requestTimeoutMs / 2);
    });

    it("without a reply in time has an unknown outcome", async () => {
      const error = await rejection(scene.client.call("host-1", "hang", [], { requestTimeoutMs: 100 }));
      expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "unknown");
    });

    it("that exceeds its time is cancelled at the agent", async () => {
      for (let timeoutMs = 150; ; timeoutMs *= 2) {
        const error = await rejection(scene.client.call("host-1", "endless", [], { timeoutMs }));
        if (error instanceof TimeoutError) break;
        // On a busy machine the agent may not have reported the method as running. Such a call cannot be cancelled.
        expect(error).to.be.instanceOf(UnavailableError);
        expect(timeoutMs).to.be.below(timing.requestTimeoutMs);
        await scene.agentServer.close();
        scene.startAgent();
        await scene.agentReady();
        scene.aborted = [];
      }
      await until(() => scene.aborted.length === 1);
    });

    it("that its caller aborts is cancelled at the agent", async () => {
      const controller = new AbortController();
      const failing = rejection(scene.client.call("host-1", "endless", [], { signal: controller.signal }));
      await scene.polled();
      controller.abort();
      expect(await failing).to.be.instanceOf(CancelledError);
      await until(() => scene.aborted.length === 1);
    });

    it("with an already aborted signal fails", async () => {
      const failing = scene.client.call("host-1", "echo", [1], { signal: AbortSignal.abort() });
      await rejection(failing, CancelledError);
    });

    it("fails when the client is closed", async () => {
      const failing = rejection(scene.client.call("host-1", "hang", []));
      await scene.hasBegun();
      scene.client.close();
      expect(await failing)
        .to.be.instanceOf(UnavailableError)
        .with.property("outcome", "unknown");
    });

    it("of a long method ends when the client is closed", async () => {
      const failing = rejection(scene.client.call("host-1", "endless", []));
      await scene.polled();
      scene.client.close();
      expect(await failing).to.be.instanceOf(CancelledError);
    });

    it("fails when the agent restarts meanwhile", async () => {
      const failing = rejection(scene.client.call("host-1", "endless", []));
      await scene.polled();
      await scene.agentServer.close();
      scene.startAgent();
      const error = await failing;
      // The last poll may reach the old agent or the new one.
      if (error instanceof AgentError) expect(error.agentMessage).to.include("the agent stops");
      else expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "unknown");
    });
  });

  it("is refused when the agent runs too many requests; polls and pings still work", async () => {
    const hanging = scene.client.call("host-1", "hang", []);
    await scene.hasBegun();
    const error = await rejection(scene.client.call("host-1", "echo", [1]), AgentError);
    expect(error.agentMessage).to.include("maxRunningRequests");
    expect(await scene.client.call("host-1", "ping", [])).to.equal("pong");
    expect(await scene.client.call("host-1", "long", [])).to.deep.equal({ done: true });
    scene.release();
    await hanging;
  });

  for (const method of ["hang", "long_hang"])
    it(`is refused when the agent runs requests of too many bytes, such as ${method}, and accepted later`, async () => {
      const large = "x".repeat(0.75 * RUNNING_SIZE_BYTES);
      const hanging = scene.client.call("host-1", method, [large]);
      await eventually(async () => {
        const error = await rejection(scene.client.call("host-1", "long", [large]), AgentError);
        expect(error.agentMessage).to.match(
          /the limit of \d+ bytes of all running requests \(maxRunningRequestBytes\)/,
        );
      });
      expect(await scene.client.call("host-1", "ping", [])).to.equal("pong");
      scene.release();
      await hanging;
      expect(await scene.client.call("host-1", "long", [large])).to.deep.equal({ done: true });
    });

  it("is refused when the director has too many requests pending", async () => {
    const options = { nats: scene.director, directorId: "process-2", ...timing, maxPendingRequests: 1 };
    const limited = new AgentClient(options);
    const hanging = limited.call("host-1", "hang", []);
    await rejection(limited.call("host-1", "ping", []), ResourceExhaustedError);
    await scene.hasBegun();
    scene.release();
    await hanging;
    limited.close();
  });

  it("delivers heartbeats", async () => {
    const heard: [string, unknown][] = [];
    const watch = watchHeartbeats(scene.director, (agentId, heartbeat) => heard.push([agentId, heartbeat]));
    await until(() => heard.length >= 2);
    watch.unsubscribe();
    expect(heard[0]).to.deep.equal(["host-1", { job_state: "running" }]);
  });

  it("reports signs of life: heartbeats, and replies that come too late", async () => {
    const heard: string[] = [];
    const stop = scene.client.onHeard((agentId) => heard.push(agentId));
    await until(() => heard.includes("host-1"));
    stop();
    await sleep(100);
    heard.length = 0;
    const quiet = new AgentClient({ nats: scene.director, directorId: "process-3", ...timing, requestTimeoutMs: 20 });
    await rejection(quiet.call("host-1", "hang", []), UnavailableError);
    const replies: string[] = [];
    const end = quiet.onHeard((agentId) => replies.push(agentId));
    await scene.hasBegun();
    scene.release();
    await until(() => replies.includes("host-1"));
    end();
    quiet.close();
    expect(heard).to.deep.equal([], "nothing once it is stopped");
  });

  it("drops heartbeats that cannot be decoded", async () => {
    const heard: string[] = [];
    const watch = watchHeartbeats(scene.director, (agentId) => heard.push(agentId));
    const other = await scene.server.connect("disk-agent-host-2");
    await until(() => other.isConnected);
    other.publish("hm.agent.heartbeat.host-2", Buffer.from("{"));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from("[]"));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from(`{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from(`{"a":"${"x".repeat(70_000)}"}`));
    other.publish("hm.agent.heartbeat.host-2", Buffer.from("{}"));
    await until(() => heard.includes("host-2"));
    watch.unsubscribe();
    expect(heard.filter((id) => id === "host-2")).to.have.length(1);
  });

  it("propagates the caller's trace to the agent's method", async () => {
    // Minimal replacement of a telemetry SDK's W3C propagator: one header.
    propagation.setGlobalPropagator({
      inject: (context, headers, setter) => setter.set(headers, "traceparent", String(context.getValue(TRACE))),
      extract: (context, headers, getter) => context.setValue(TRACE, getter.get(headers, "traceparent")),
      fields: () => ["traceparent"],
    });
    try {
      context.setGlobalContextManager(new AsyncLocalContext().enable());
      const caller = ROOT_CONTEXT.setValue(TRACE, "00-trace-of-the-caller");
      const seen = await context.with(caller, () => scene.client.call("host-1", "trace", []));
      expect(seen).to.equal("00-trace-of-the-caller");
    } finally {
      context.disable();
      propagation.disable();
    }
  });
});
