import { AdminServiceDefinition, SubjectKind } from "@diskmesh/api/common";
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
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestAgent } from "./testing/test-agent.js";
import { TestRegistry } from "./testing/test-registry.js";

const DEAD = HostState.DEAD;
const BACK = HostState.ONLINE;
const PATIENCE = { timeoutMs: 60_000 };

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

  it("a host that missed two heartbeats gets nothing new until it is heard", async function () {
    leaveToVerify(this);
    registry = await TestRegistry.start({
      heartbeat: { intervalMs: 500, timeoutMs: 60_000, missedUntilSuspected: 2 },
    });
    const { operator } = registry;
    const one = await readyAgent("h1", ["d1", "d2"]);
    await readyAgent("h2", ["e1"]);
    await eventually(() => createDisk("there", "h1"));
    one.stopHeartbeats();
    await eventually(async () => expect((await hostOf("h1")).suspected).to.equal(true));
    expect((await hostOf("h1")).state).to.equal(HostState.ONLINE);
    await rejection(createDisk("more", "h1"), ResourceExhaustedError);
    await eventually(async () => {
      for (const vmCid of ["vm-1", "vm-2"]) await operator.assignHost({ vmCid, az: "z1" }).catch(() => {});
      expect((await hostOf("h2")).assignment).not.to.equal(undefined);
    });
    expect((await hostOf("h1")).assignment).to.equal(undefined);
    // The suspected host h1 holds the disk's device, so a publication to either host is refused.
    for (const hostId of ["h1", "h2"]) {
      const error = await rejection(operator.publishDisk({ diskId: "there", hostId }), UnavailableError);
      expect(error.message).to.contain("is suspected: it missed");
    }
    expect((await registry.disk("there")).publication).to.equal(undefined);
    one.startHeartbeats(50);
    await eventually(() => createDisk("more", "h1"));
    await eventually(() => operator.publishDisk({ diskId: "there", hostId: "h1" }));
  });

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
    await eventually(() => registry.process.logs.includes('"alert":"mass_silence"'), { timeoutMs: 90_000 });
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

  it("the removal of a host that never answers again names the lost disks everywhere, and ends once they are deleted", async () => {
    registry = await TestRegistry.start({
      heartbeat: { intervalMs: 500, timeoutMs: 3_000 },
      unavailableRemovalTimeoutMs: 1_000,
    });
    const { operator } = registry;
    const agent = await readyAgent("h1", ["d1", "d2"]);
    await createDisk("x", "h1");
    const [lostId] = devicesWithBytes(await registry.disk("x"));
    agent.stopHeartbeats();
    await eventually(async () => expect((await hostOf("h1")).state).to.equal(HostState.UNAVAILABLE), PATIENCE);
    const first = (await operator.removeHost({ hostId: "h1" })).result;
    expect(first).to.include({ code: "ACTION_CODE_E_TRY_AGAIN" });
    const event = await eventually(async () => {
      const [found] = (await operator.listEvents({ action: "DisksLost" })).events;
      if (found === undefined) throw new Error("no event names the lost disks");
      return found;
    }, PATIENCE);
    expect(event).to.deep.include({ hostIds: ["h1"], diskIds: ["x"], deviceIds: [lostId] });
    const text = `x (1 of 1 parts, on ${lostId}; unpublished)`;
    expect(event.message).to.contain(text);
    const waits = (await operator.removeHost({ hostId: "h1" })).result;
    expect(waits).to.deep.include({ code: "ACTION_CODE_E_TRY_AGAIN", dependentDiskIds: ["x"] });
    expect(waits?.message).to.contain(`holds 1 lost disk`).and.to.contain(text);
    const { causes } = await registry
      .operatorOf(AdminServiceDefinition)
      .explain({ subject: { kind: SubjectKind.HOST, name: "h1" } });
    expect(causes.map(({ message }) => message).join()).to.contain(`it has lost 1 disk: ${text}`);
    await operator.deleteDisk({ diskId: "x" });
    const gone = (await operator.removeHost({ hostId: "h1" })).result;
    expect(gone).to.deep.include({ code: "ACTION_CODE_S_OK", unerasedDeviceIds: [lostId] });
    expect((await operator.listEvents({ action: "DisksLost" })).events).to.have.length(1);
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
