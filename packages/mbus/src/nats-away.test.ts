import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { AgentServer } from "./agent-server.js";
import { watchHeartbeats } from "./heartbeats.js";
import { MbusScene, timing, until } from "./testing/mbus-scene.js";

describe("mbus while NATS is down", () => {
  const scene = MbusScene.forAllTests();

  it("fails a request within its time and does not send it later", async () => {
    let calls = 0;
    const counting = new AgentServer({
      nats: scene.agent,
      agentId: "host-1",
      methods: { count: { mode: "sync", minArguments: 0, run: async () => ++calls } },
      heartbeat: () => ({}),
      heartbeatIntervalMs: 1_000,
      log: silentLogger,
    });
    await scene.server.nats.kill();
    await until(() => !scene.director.isConnected && !scene.agent.isConnected);
    const startedAtMs = performance.now();
    const error = await rejection(scene.client.call("host-1", "count", [], { timeoutMs: 200 }));
    expect(error).to.be.instanceOf(UnavailableError).with.property("outcome", "not_done");
    expect(performance.now() - startedAtMs).to.be.within(150, timing.requestTimeoutMs / 2);
    await scene.server.nats.start();
    await until(() => scene.director.isConnected && scene.agent.isConnected);
    await sleep(200);
    expect(calls).to.equal(0);
    await counting.close();
  });

  it("does not send a request later when its client is closed meanwhile", async () => {
    await scene.server.nats.kill();
    await until(() => !scene.director.isConnected && !scene.agent.isConnected);
    const failing = rejection(scene.client.call("host-1", "hang", []));
    await sleep(20);
    scene.client.close();
    expect(await failing)
      .to.be.instanceOf(UnavailableError)
      .with.property("outcome", "not_done");
    let isHeard = false;
    scene.agent.subscribe("agent.host-1", () => {
      isHeard = true;
    });
    await scene.server.nats.start();
    await until(() => scene.director.isConnected && scene.agent.isConnected);
    await sleep(100);
    expect(isHeard).to.equal(false);
  });

  it("holds a request until NATS is back, and restores subscriptions", async () => {
    await scene.server.nats.kill();
    await until(() => !scene.director.isConnected && !scene.agent.isConnected);
    const heard: string[] = [];
    watchHeartbeats(scene.director, (agentId) => heard.push(agentId));
    const waiting = scene.director.whenConnected(AbortSignal.timeout(timing.callTimeoutMs));
    await scene.server.nats.start();
    await waiting;
    await scene.agentReady();
    expect(await scene.client.call("host-1", "echo", [1])).to.deep.equal([1]);
    await until(() => heard.length > 0);
  });

  it("fails a pending request at once with an unknown outcome", async () => {
    const failing = rejection(scene.client.call("host-1", "hang", []));
    await scene.hasBegun();
    const startedAtMs = performance.now();
    await scene.server.nats.kill();
    expect(await failing)
      .to.be.instanceOf(UnavailableError)
      .with.property("outcome", "unknown");
    expect(performance.now() - startedAtMs).to.be.below(timing.requestTimeoutMs / 2);
    await scene.server.nats.start();
    await until(() => scene.director.isConnected && scene.agent.isConnected);
  });

  it("resumes polling a long request when NATS is back", async () => {
    const calling = scene.client.call("host-1", "long_hang", []);
    await scene.polled();
    await scene.server.nats.kill();
    await until(() => !scene.director.isConnected && !scene.agent.isConnected);
    await scene.server.nats.start();
    scene.release();
    expect(await calling).to.equal(null);
  });
});
