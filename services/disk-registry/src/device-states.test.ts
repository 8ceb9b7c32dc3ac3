import { AttachState, Health } from "@diskmesh/api/registry";
import { InvalidArgumentError, NotFoundError, PermissionDeniedError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";

describe("disk-registry and the health of devices", () => {
  const fleet = SharedRegistry.forAllTests();
  const healthOf = async (deviceId = "d1") => {
    const { health, healthMessage } = await fleet.registry.device(deviceId);
    return `${health} ${healthMessage}`.trim();
  };
  const say = (health: Health, reason = "", deviceIds = ["d1"]) =>
    fleet.registry.operator.setDeviceState({ deviceIds, health, reason });
  const FAILED = "HEALTH_ERROR I/O on device d1 failed: EIO (until SetDeviceState resets it)";
  const failure = { deviceId: "d1", message: "I/O on device d1 failed: EIO", ageMs: 0 };

  it("a hardware error stays ERROR over heartbeats, restart, detach and attach, until SetDeviceState", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    await agent.heartbeat("h1", agent.bootId, { hardwareErrors: [failure] });
    await agent.heartbeat("h1", agent.bootId, { hardwareErrors: [{ ...failure, message: "a later one" }] });
    await agent.heartbeat();
    expect(await healthOf()).to.equal(FAILED);
    expect(await rejection(fleet.createDisk("x"), ResourceExhaustedError)).to.include({ reason: "NO_DEVICES_FIT" });
    agent.stopHeartbeats();
    await agent.stop();
    await agent.start();
    await agent.register();
    expect(await healthOf(), "after a restart of the agent").to.equal(FAILED);
    await fleet.registry.operator.removeHost({ hostId: "h1", keepData: true });
    await fleet.inState("d1", AttachState.DETACHED);
    await fleet.add();
    await fleet.inState("d1", AttachState.ATTACHED);
    const device = await fleet.registry.device("d1");
    expect(device.hardwareError?.message).to.equal(failure.message);
    expect(`${device.health} ${device.healthMessage}`).to.equal(FAILED);
    expect(await say(Health.ONLINE)).to.deep.equal({ changedDeviceIds: ["d1"], diskIds: [] });
    expect((await say(Health.ONLINE)).changedDeviceIds, "nothing is left to take back").to.deep.equal([]);
    expect(await healthOf()).to.equal("HEALTH_ONLINE");
    await fleet.clean("d1");
    await fleet.createDisk("x");
  });

  it("an operator's WARNING keeps new disks away, whatever the agent reports, until it is cleared", async () => {
    const agent = await fleet.readyAgent("h1", ["d1"]);
    const tried = { deviceIds: ["d1"], health: Health.WARNING, reason: "it rattles" };
    await fleet.registry.operator.setDeviceState({ ...tried, dryRun: true });
    expect(await healthOf()).to.equal("HEALTH_ONLINE");
    await fleet.registry.operator.setDeviceState(tried);
    expect(await healthOf()).to.match(/^HEALTH_WARNING WARNING set by operator.*: it rattles$/);
    await agent.heartbeat("h1", agent.bootId, {
      changed: [{ deviceId: "d1", health: Health.ONLINE, healthMessage: "" }],
    });
    const { saidHealth, saidHealthBy } = await fleet.registry.device("d1");
    expect(saidHealth).to.equal(Health.WARNING);
    expect(saidHealthBy?.reason).to.equal("it rattles");
    await rejection(fleet.createDisk("x"), ResourceExhaustedError);
    await say(Health.ONLINE);
    await fleet.createDisk("x");
    expect(await say(Health.ERROR, "it smokes")).to.deep.equal({ changedDeviceIds: ["d1"], diskIds: ["x"] });
  });

  it("unknown devices, a missing reason, state or device are refused for all devices", async () => {
    await fleet.readyAgent("h1", ["d1"]);
    await rejection(say(Health.ERROR, "x", ["d1", "d9"]), NotFoundError, "d9");
    expect(await healthOf()).to.equal("HEALTH_ONLINE");
    await rejection(say(Health.ERROR), InvalidArgumentError, "reason");
    await rejection(say(Health.UNSPECIFIED, "x"), InvalidArgumentError, "health");
    await rejection(say(Health.ERROR, "x", []), InvalidArgumentError, "device_ids");
    await rejection(
      fleet.registry.client("director").setDeviceState({ deviceIds: ["d1"], health: Health.ONLINE, reason: "" }),
      PermissionDeniedError,
    );
  });
});
