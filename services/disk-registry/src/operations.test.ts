import { setTimeout as delay } from "node:timers/promises";
import { OrderOutcome } from "@diskmesh/api/internal";
import { type ActionResult, AttachState } from "@diskmesh/api/registry";
import { msOfDuration } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestAgent } from "./testing/test-agent.js";
import { TestRegistry } from "./testing/test-registry.js";

describe("disk-registry, as operators see it", () => {
  let registry: TestRegistry;

  afterEach(() => registry?.stop());

  const inState = (deviceId: string, state: AttachState) =>
    eventually(async () => {
      const device = await registry.device(deviceId);
      expect(device.attachState, device.lastError).to.equal(state);
      return device;
    });
  const readyAgent = async (hostId: string, deviceIds: string[]): Promise<TestAgent> => {
    const agent = await registry.agent(hostId, deviceIds);
    await agent.register();
    agent.startHeartbeats(50);
    await registry.operator.addHost({ hostId });
    for (const deviceId of deviceIds) await clean(deviceId);
    return agent;
  };
  const clean = (deviceId: string) =>
    eventually(async () => expect((await registry.device(deviceId)).dirty).to.equal(false));

  it("a failing device shows its next try, an erased one its progress", async () => {
    registry = await TestRegistry.start({ tuning: { backoff: { minDelayMs: 2_000, maxDelayMs: 4_000 } } });
    const agent = await registry.agent("h1", ["d1"]);
    await agent.register();
    let failing = true;
    agent.before = async (kind) => (kind === "attach" && failing ? OrderOutcome.IO_ERROR : undefined);
    agent.beforeErase = async () => OrderOutcome.PENDING;
    agent.erasedBytes = 4_096;
    await registry.operator.addHost({ hostId: "h1" });
    const waiting = await eventually(async () => {
      const device = await registry.device("d1");
      const inMs = (device.nextAttemptTime?.getTime() ?? 0) - Date.now();
      expect(inMs).to.be.within(0, 4_000);
      return device;
    });
    expect(waiting.attachState).to.equal(AttachState.ATTACHING);
    expect(waiting.attempts).to.be.at.least(1);
    failing = false;
    const erasing = await eventually(async () => {
      const device = await registry.device("d1");
      expect(device).to.include({ attachState: AttachState.ATTACHED, erasedBytes: 4_096, dirty: true });
      return device;
    });
    expect(erasing.eraseSessionNumber).to.be.above(0);
    expect(erasing.nextAttemptTime).to.equal(undefined);
  });

  it("a dry run of every action has the real answer, and changes no field", async () => {
    registry = await TestRegistry.start();
    const agent = await readyAgent("h1", ["d1", "d2", "d3"]);
    await registry.operator.removeDevice({ hostId: "h1", deviceId: "d3" });
    await inState("d3", AttachState.DETACHED);
    const everything = async () => {
      const page = { pageSize: 100 };
      const { hosts } = await registry.operator.listHosts(page);
      const { devices } = await registry.operator.listDevices(page);
      return { hosts: hosts.map(({ lastHeartbeatTime: _, ...host }) => host), devices };
    };
    const before = await everything();
    const ordersBefore = agent.received.length;
    const { operator } = registry;
    const device = { hostId: "h1", path: "/dev/d3", dryRun: true };
    const runs: [string, () => Promise<{ result?: ActionResult | undefined }>, string][] = [
      ["AddHost", () => operator.addHost({ hostId: "h1", dryRun: true }), "S_OK"],
      ["AddDevice", () => operator.addDevice(device), "S_OK"],
      ["RemoveHost", () => operator.removeHost({ hostId: "h1", dryRun: true }), "E_TRY_AGAIN"],
      ["RemoveDevice", () => operator.removeDevice({ ...device, path: "/dev/d1" }), "E_TRY_AGAIN"],
      ["PurgeDevice", () => operator.purgeDevice(device), "S_OK"],
      ["PurgeHost", () => operator.purgeHost({ hostId: "h1", dryRun: true, force: true }), "S_OK"],
    ];
    for (const [name, run, code] of runs) {
      const { result } = await run();
      expect(result?.code, name).to.equal(`ACTION_CODE_${code}`);
      expect(msOfDuration(result?.retryDelay) > 0, `${name}: retry_delay`).to.equal(code === "E_TRY_AGAIN");
    }
    await delay(300);
    expect(await everything()).to.deep.equal(before);
    expect(agent.received.length).to.equal(ordersBefore);
  });
});
