import { PermissionDeniedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { AgentScene, ALREADY, DONE } from "../testing/agent-scene.js";

const OUTDATED = "ORDER_OUTCOME_OUTDATED";
const UNKNOWN_DEVICE = "ORDER_OUTCOME_UNKNOWN_DEVICE";

describe("orders to an agent", () => {
  const scene = AgentScene.forEachTest();

  it("close on detach, open on attach, and are refused when outdated", async () => {
    await scene.start();
    const order = await scene.orders();
    const detach = scene.registry.nextGeneration("dev-a");
    expect(await order.detach("dev-a", detach)).to.equal(DONE);
    expect(scene.bothHeld).to.deep.equal([0, 1]);
    expect(await order.attach("dev-a", detach - 1)).to.equal(OUTDATED);
    expect(await order.attach("dev-a", detach)).to.equal(OUTDATED);
    expect(await order.detach("dev-a", detach)).to.equal(ALREADY);
    expect(await order.detach("nobody")).to.equal(UNKNOWN_DEVICE);
    expect(scene.held("a")).to.equal(0);
    expect(await order.attach("dev-a")).to.equal(DONE);
    expect(scene.held("a")).to.equal(1);
  });

  it("are refused as a whole for another start, another tablet or a replaced leader", async () => {
    const { registry } = scene;
    await scene.start();
    const { client, bootId } = await scene.orders();
    const generation = registry.nextGeneration("dev-a") + 10;
    const send = (boot: string, change: object) => {
      const stamp = { ...registry.stamp(generation), ...change };
      const request = { bootId: boot, devices: [{ deviceId: "dev-a", stamp, expected: undefined }] };
      return client.detachDevices(request).then(
        () => "obeyed",
        (error: Error) => error.name,
      );
    };
    expect(await send("another-boot", {})).to.equal("OutdatedError");
    expect(await send(bootId, { tabletId: "foreign" })).to.equal("InvalidStateError");
    expect(await send(bootId, { tabletGeneration: 0 })).to.equal("InvalidArgumentError");
    expect(scene.held("a")).to.equal(1);
    registry.tabletGeneration = 5;
    const order = await scene.orders();
    expect(await order.attach("dev-b")).to.equal(ALREADY);
    expect(await send(bootId, { tabletGeneration: 4 })).to.equal("OutdatedError");
    expect(scene.held("a")).to.equal(1);
    expect(await send(bootId, { tabletGeneration: 5 })).to.equal("obeyed");
    expect(scene.held("a")).to.equal(0);
  });

  it("come from the registry only; an operator may also request a rescan", async () => {
    await scene.start();
    const { bootId } = await scene.orders();
    for (const who of ["operator", "director", "disk-agent-host-2"])
      await rejection(scene.ordersOf(who, bootId).detach("dev-a"), PermissionDeniedError);
    expect(scene.held("a")).to.equal(1);
    for (const [who, allowed] of [
      ["operator", true],
      ["disk-registry", true],
      ["director", false],
      ["disk-agent-host-2", false],
    ] as const) {
      const looking = scene.client(who).rescanDevices({});
      if (allowed) expect((await looking).changedDeviceIds, who).to.deep.equal([]);
      else await rejection(looking, PermissionDeniedError);
    }
  });
});
