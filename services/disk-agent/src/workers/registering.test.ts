import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RegisterAgentRequest } from "@diskmesh/api/internal";
import { AbortedError, InvalidArgumentError, NotFoundError, TimeoutError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { seal } from "../cache/seal.js";
import { latestText } from "../cache/slots.js";
import { AgentScene, DEVICE_BYTES } from "../testing/agent-scene.js";
import { makeDeviceFile } from "../testing/device-fixture.js";

describe("an agent that registers", () => {
  const scene = AgentScene.forEachTest();

  it("opens all its devices at the start, without a registry", async () => {
    const { registry } = scene;
    await registry.stop();
    await scene.start({ registry: { address: ["127.0.0.1:1", registry.address] } });
    expect(scene.bothHeld).to.deep.equal([1, 1]);
    expect((await scene.list()).devices.map(({ deviceId, attached }) => [deviceId, attached])).to.deep.equal([
      ["dev-a", true],
      ["dev-b", true],
    ]);
    await eventually(() => rejection(scene.ready(1_000), TimeoutError, /NOT_SERVING, because it lacks: registered$/));
    await registry.start();
    const registration = await registry.registered("host-1");
    expect(registration).to.include({ az: "z1", address: scene.agent.address, tabletId: "" });
    await scene.ready(30_000);
    const ofNobody = scene
      .logged("registry connection failed")
      .filter((line) => line.includes('"address":"127.0.0.1:1"'));
    expect(ofNobody, "each reason once, at once").to.have.length(1);
    expect(ofNobody[0]).to.contain("no process listens there");
    await registry.stop();
    await eventually(() => rejection(scene.ready(1_000), TimeoutError, /NOT_SERVING, because it lacks: registered$/));
    expect((await scene.list()).devices.map(({ attached }) => attached)).to.deep.equal(
      [true, true],
      "it serves all the same",
    );
    expect(scene.agent.process.logs).to.contain("readiness condition lost: registered (");
  });

  it("closes devices that the registry does not want, logs the reason once, and opens them again when it does", async () => {
    const { registry } = scene;
    let reason = "the device id belongs to host other";
    registry.answer = (request) => {
      const answer = registry.allow(request, reason === "" ? [] : ["dev-a"]);
      return { ...answer, unknownDevices: answer.unknownDevices.map((device) => ({ ...device, reason })) };
    };
    await scene.start();
    await registry.registered("host-1");
    const logged = () => scene.logged("belongs to host other").length;
    await eventually(() => expect(logged()).to.equal(1));
    await scene.registerAnew();
    reason = "";
    registry.nextGeneration("dev-a");
    await scene.registerAnew();
    await eventually(() => expect(scene.held("a")).to.equal(1));
    expect(logged()).to.equal(1);
  });

  /**
   * Kills the agent, stores an error of `dev-a` with this time in its cache, and returns the registration of the next
   * start.
   */
  async function startsWithError(hardwareErrorAtMs: number | undefined): Promise<RegisterAgentRequest> {
    await scene.agent.process.kill();
    const cache = join(scene.agent.baseFolder, "agent-cache.json");
    const { sha256: _, ...memory } = JSON.parse(latestText(readFileSync(cache, "utf8")));
    Object.assign(memory.devices["dev-a"], { hardwareError: "EIO: i/o error", hardwareErrorAtMs });
    writeFileSync(cache, seal(`${JSON.stringify(memory)}\n`));
    const before = scene.registry.registrations.length;
    await scene.start();
    return scene.registry.registered("host-1", before);
  }

  it("reports a hardware error from before a kill to the next registry, once", async () => {
    const { registry } = scene;
    await scene.start();
    await (await scene.orders()).attach("dev-a");
    const { devices } = await startsWithError(Date.now());
    const told = devices.map(({ hardwareError, health }) => `${health} ${hardwareError}`.trim());
    expect(told).to.deep.equal(["HEALTH_ONLINE EIO: i/o error", "HEALTH_ONLINE"]);
    const heard = registry.heartbeats.length;
    await eventually(() => expect(registry.heartbeats.length).to.be.above(heard + 1));
    expect(registry.heartbeats.slice(heard).flatMap(({ hardwareErrors }) => hardwareErrors)).to.deep.equal([]);
    expect((await scene.list()).devices.map(({ health }) => health)).to.deep.equal(["HEALTH_ONLINE", "HEALTH_ONLINE"]);
  });

  it("reports that error's age, and 0 where its time is unknown or in the future", async () => {
    await scene.start();
    await (await scene.orders()).attach("dev-a");
    const hourMs = 3_600_000;
    const ageMs = async (atMs: number | undefined) => (await startsWithError(atMs)).devices[0]?.hardwareErrorAgeMs;
    expect(await ageMs(Date.now() - hourMs)).to.be.within(hourMs - 1_000, hourMs + 300_000);
    expect(await ageMs(undefined)).to.equal(0);
    expect(await ageMs(Date.now() + hourMs)).to.equal(0);
  });

  it("applies an answer's attaches and detaches, and nothing of a refused answer", async () => {
    const { registry } = scene;
    let refusals = 0;
    registry.answer = () => {
      refusals += 1;
      throw new AbortedError("not now");
    };
    await scene.start();
    await eventually(() => refusals >= 2);
    expect(scene.bothHeld).to.deep.equal([1, 1]);
    registry.answer = (request) => registry.allow(request, ["dev-b"]);
    await eventually(() => scene.held("b") === 0);
    expect(scene.held("a")).to.equal(1);
  });

  it("registers again when the registry forgot it", async () => {
    const { registry } = scene;
    await scene.start();
    await scene.orders();
    registry.onHeartbeat = () => {
      throw new NotFoundError("no such host");
    };
    const before = registry.registrations.length;
    await eventually(() => registry.registrations.length > before);
  });

  it("continues heartbeats, with changes, after a refused registration, until one is accepted", async () => {
    const { registry } = scene;
    await scene.start({ tuning: { rescanIntervalMs: 100 } });
    await registry.registered("host-1");
    const { answer } = registry;
    let refusals = 0;
    registry.answer = () => {
      refusals += 1;
      throw new InvalidArgumentError("az is malformed");
    };
    // A replaced device file causes a registration.
    writeFileSync(scene.path("new"), Buffer.alloc(DEVICE_BYTES));
    renameSync(scene.path("new"), scene.path("a"));
    await eventually(() => refusals > 3);
    const beaten = registry.heartbeats.length;
    rmSync(scene.path("b"));
    await eventually(() => {
      const { health } = registry.heartbeats.slice(beaten).flatMap(({ changed }) => changed)[0] ?? {};
      expect(health).to.equal("HEALTH_ERROR");
    });
    registry.answer = answer;
    await scene.ready(30_000);
  });

  it("reports found files that cannot be registered as ERROR, and makes them devices when renamed, without a restart", async () => {
    const { registry, folder } = scene;
    makeDeviceFile(folder, "disk-a\tb", DEVICE_BYTES);
    const discovery = { rules: [{ glob: scene.path("disk-*"), idPrefix: "f" }] };
    await scene.start({ discovery, tuning: { rescanIntervalMs: 100 } });
    const found = async () => {
      const { devices } = await registry.registered("host-1");
      return devices
        .filter(({ deviceId }) => deviceId.startsWith("f-"))
        .map(({ deviceId, path, health, sizeBytes }) => [deviceId, path, health, sizeBytes]);
    };
    const escaped = scene.path("disk-a\\tb");
    expect(await found()).to.deep.equal([["f-disk-a-b", escaped, "HEALTH_ERROR", 0]]);
    renameSync(scene.path("disk-a\tb"), scene.path("disk-a-b"));
    await eventually(async () =>
      expect(await found()).to.deep.equal([["f-disk-a-b", scene.path("disk-a-b"), "HEALTH_ONLINE", DEVICE_BYTES]]),
    );
  });
});
