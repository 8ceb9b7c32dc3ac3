import { InvalidStateError, OutdatedError, PermissionDeniedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene, ALREADY } from "../testing/agent-scene.js";

const LOST = { tabletId: "tablet-1", incarnation: "lost", tabletGeneration: 5 };
const FLEET = { fleetId: "tablet-1", incarnation: "rebuilt" };

describe("an agent and a registry that was rebuilt", () => {
  const scene = AgentScene.forEachTest();

  beforeEach(() => scene.registry.become(LOST));

  const start = async (registrySilenceMs: number) => {
    await scene.start({ tuning: { registrySilenceMs } });
    return scene.orders();
  };
  const isObeyed = async (incarnation: string) => expect(await scene.list()).to.include({ incarnation });

  it("describes itself at any time, and follows no other while it hears a registry", async () => {
    const { client, bootId } = await start(600_000);
    const { registration, untilSilentMs } = await client.followRebuilt({});
    expect(registration).to.deep.include({ hostId: "host-1", tabletId: "tablet-1", incarnation: "lost", bootId });
    expect(registration?.address).to.equal(scene.agent.address);
    expect(registration?.devices.map(({ deviceId, attached }) => [deviceId, attached])).to.deep.equal([
      ["dev-a", true],
      ["dev-b", true],
    ]);
    expect(untilSilentMs).to.be.within(1, 600_000);
    await rejection(client.followRebuilt({ ...FLEET, bootId }), InvalidStateError, "heard a registry a moment ago");
    await scene.registry.stop();
    await rejection(client.followRebuilt({ ...FLEET, bootId }), InvalidStateError, "stop every registry of the fleet");
    await isObeyed("lost");
  });

  it("follows one of its own fleet once registries are silent, for good, and serves its disks on", async () => {
    const orders = await start(1);
    const { client, bootId } = orders;
    await orders.openSession(["dev-a"], 1, "disk-1", "host-1");
    const exportPath = await orders.export("disk-1", 1, [{ deviceId: "dev-a", hostId: "host-1", sizeBytes: 4096 }]);
    await scene.registry.stop();
    await eventually(async () => expect((await client.followRebuilt({})).untilSilentMs).to.equal(0));
    await rejection(client.followRebuilt({ fleetId: "tablet-2" }), InvalidStateError, 'and not "tablet-2"');
    const foreign = { ...FLEET, fleetId: "tablet-2", bootId };
    await rejection(client.followRebuilt(foreign), InvalidStateError, 'and not "tablet-2"');
    await rejection(client.followRebuilt({ ...FLEET, bootId: "another" }), OutdatedError, "has restarted");
    await rejection(scene.client().followRebuilt({ ...FLEET, bootId }), PermissionDeniedError, "");
    await isObeyed("lost");

    const { disks } = await client.followRebuilt({ ...FLEET, bootId });
    expect(disks).to.have.length(1);
    expect(disks[0]?.exportPath).to.equal(exportPath);
    expect(disks[0]?.order).to.deep.include({ diskId: "disk-1", sessionNumber: 1, bootId: "", stamp: undefined });
    await isObeyed("rebuilt");
    await rejection(orders.openSession(["dev-a"], 2, "disk-1", "host-1"), OutdatedError, "registry that was replaced");
    await rejection(client.followRebuilt({ ...FLEET, incarnation: "lost", bootId }), OutdatedError, "was replaced");
    expect(await client.followRebuilt({ ...FLEET, bootId }), "a repetition").to.have.property("disks");

    await scene.agent.process.kill();
    scene.registry.become({ tabletId: "tablet-1", incarnation: "rebuilt", tabletGeneration: 1 });
    const before = scene.registry.registrations.length;
    await scene.registry.start();
    await scene.agent.process.start();
    const rebuilt = await scene.orders(before);
    expect(await rebuilt.attach("dev-a")).to.equal(ALREADY);
  });
});
