import { devicesWithBytes, type Host, HostState, PublicationState } from "@diskmesh/api/registry";
import {
  AbortedError,
  InvalidArgumentError,
  MIB_BYTES,
  NotFoundError,
  PermissionDeniedError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestAgent } from "./testing/test-agent.js";
import { TestRegistry } from "./testing/test-registry.js";

const DEAD = HostState.DEAD;
const BACK = HostState.ONLINE;

describe("dead hosts", () => {
  let registry: TestRegistry;
  afterEach(() => registry?.stop());

  const hostOf = async (hostId: string): Promise<Host> => {
    const { host } = await registry.operator.getHost({ hostId });
    if (host === undefined) throw new Error("the answer has no host");
    return host;
  };

  /** Returns a registered agent that has sent a heartbeat, and whose devices are all attached and clean. */
  const readyAgent = async (hostId: string, deviceIds: string[]): Promise<TestAgent> => {
    const agent = await registry.agent(hostId, deviceIds);
    await agent.register();
    agent.startHeartbeats(50);
    await registry.operator.addHost({ hostId });
    await eventually(async () => {
      for (const deviceId of deviceIds) expect((await registry.device(deviceId)).dirty).to.equal(false);
    });
    return agent;
  };

  const createDisk = (diskId: string, hostId: string) =>
    registry.operator.createDisk({ diskId, sizeBytes: MIB_BYTES, hostId });

  it("7 of 12 silent hosts stay ONLINE until an operator declares them DEAD; DEAD ones are removed at once, also when heard", async () => {
    const hostIds = Array.from({ length: 12 }, (_, index) => `h${index + 1}`);
    registry = await TestRegistry.start({ heartbeat: { intervalMs: 500, timeoutMs: 3_000 } }, hostIds);
    const { operator } = registry;
    const agents: TestAgent[] = [];
    for (const hostId of hostIds)
      agents.push(await readyAgent(hostId, hostId === "h1" ? ["d1"] : hostId === "h2" ? ["d2", "e2"] : []));
    const [one, two] = agents as [TestAgent, TestAgent];
    await createDisk("x", "h1");
    await createDisk("y", "h2");
    const deviceIds = devicesWithBytes(await registry.disk("y"));
    const free = deviceIds.includes("d2") ? "e2" : "d2";
    await operator.publishDisk({ diskId: "y", hostId: "h1" });
    await operator.assignHost({ vmCid: "vm-1", az: "z1", diskIds: ["x"] });
    const dying = hostIds.slice(0, 7);
    for (const agent of agents.slice(0, 7)) agent.stopHeartbeats();
    // The registry does not count time in which it was too busy to receive heartbeats.
    await eventually(() => registry.process.logs.includes('"alert":"mass_silence"'));
    for (const hostId of dying) expect((await hostOf(hostId)).state).to.equal(HostState.ONLINE);

    const say = { hostIds: dying, state: DEAD, reason: "the hall burnt down" };
    const touched = { changedHostIds: dying, devices: 3, disksOnDevices: 2, publications: 1, vms: 1, fences: 0 };
    expect(await operator.setHostState({ ...say, dryRun: true })).to.deep.equal(touched);
    expect((await hostOf("h1")).state).to.equal(HostState.ONLINE);
    expect(await operator.setHostState(say)).to.deep.equal(touched);
    expect(await operator.setHostState(say)).to.deep.include({ changedHostIds: [], devices: 0 });
    const dead = await hostOf("h1");
    expect(dead.state).to.equal(DEAD);
    expect(dead.saidDead).to.include({ by: "operator", reason: "the hall burnt down" });
    expect(dead.saidDead?.saidAt?.getTime()).to.equal(dead.stateChangedAt?.getTime());
    // The error proves that PublishDisk did not report success.
    await rejection(operator.publishDisk({ diskId: "x", hostId: "h12" }), UnavailableError);
    // The progress is reported shortly before the deadline, which may be too late on a busy machine.
    const unpublish = () => operator.unpublishDisk({ diskId: "y" }, { deadlineMs: 1_500 });
    await eventually(() => rejection(unpublish(), UnavailableError));
    expect((await operator.removeDevice({ deviceId: free })).result).to.deep.include({
      code: "ACTION_CODE_S_OK",
      unerasedDeviceIds: [],
    });
    expect(await registry.device(free)).to.include({ attachState: "ATTACH_STATE_DETACHED", detachConfirmed: false });

    // Both agents were only disconnected, so their processes continue.
    await rejection(two.heartbeat(), AbortedError);
    await two.register();
    two.startHeartbeats(50);
    await eventually(async () => {
      // A real agent registers again when it was silent on a busy machine.
      await two.heartbeat().catch(() => two.register());
      expect((await registry.disk("y")).publication).to.equal(undefined);
      expect((await registry.device(free)).detachConfirmed).to.equal(true);
    });
    expect((await hostOf("h2")).state).to.equal(DEAD);
    await rejection(createDisk("more", "h2"), ResourceExhaustedError);
    await one.register();
    one.startHeartbeats(50);
    await eventually(async () => {
      await one.heartbeat().catch(() => one.register());
      expect([...one.exports.keys()]).to.deep.equal([]);
    });

    await operator.setHostState({ hostIds: dying, state: BACK });
    await eventually(async () => {
      for (const agent of [one, two]) await agent.heartbeat().catch(() => agent.register());
      expect((await hostOf("h2")).state).to.equal(HostState.ONLINE);
    });
    expect((await hostOf("h2")).saidDead).to.equal(undefined);
    const { disk } = await eventually(() => operator.publishDisk({ diskId: "y", hostId: "h1" }));
    expect(disk?.publication?.state).to.equal(PublicationState.PUBLISHED);
  });

  it("an override that is empty, names no host, or comes from another role is refused and changes nothing", async () => {
    registry = await TestRegistry.start();
    await readyAgent("h1", []);
    const { operator } = registry;
    const word = { hostIds: ["h1"], state: DEAD, reason: "why not" };
    for (const change of [
      { reason: "" },
      { reason: "line\nbreak" },
      { reason: "x".repeat(5_000) },
      { hostIds: [] },
      { hostIds: ["h1", "h1"] },
      { hostIds: ["h 1"] },
      { state: HostState.UNAVAILABLE },
      { state: HostState.UNSPECIFIED },
    ])
      await rejection(operator.setHostState({ ...word, ...change }), InvalidArgumentError);
    await rejection(operator.setHostState({ ...word, hostIds: ["h1", "h9"] }), NotFoundError);
    await rejection(registry.client("cpi-dispatcher").setHostState(word), PermissionDeniedError);
    expect((await hostOf("h1")).state).to.equal(HostState.ONLINE);
  });
});
