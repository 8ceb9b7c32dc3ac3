import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene, ALREADY, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";
import { makeDeviceFile } from "../testing/device-fixture.js";

const IO_ERROR = "ORDER_OUTCOME_IO_ERROR";

describe("an agent with unusable devices", () => {
  const scene = AgentScene.forEachTest();

  it("reports bad device files as ERROR with the reason, without harm to other devices", async function () {
    skipWithout(this, "mkfifo");
    const { folder, registry } = scene;
    const named = (name: string) => scene.path(name);
    mkdirSync(named("directory"));
    execFileSync("mkfifo", [named("fifo")]);
    makeDeviceFile(folder, "short", DEVICE_BYTES - 1);
    writeFileSync(named("empty"), "");
    const bad: [string, object, RegExp][] = [
      ["missing", { path: named("missing"), sizeBytes: DEVICE_BYTES }, /missing.*there is no such file/],
      ["directory", { path: named("directory"), sizeBytes: DEVICE_BYTES }, /it is a directory/],
      ["fifo", { path: named("fifo"), sizeBytes: DEVICE_BYTES }, /it is a FIFO/],
      ["character", { path: "/dev/null", sizeBytes: DEVICE_BYTES }, /character device/],
      ["short", { path: named("short"), sizeBytes: DEVICE_BYTES }, /too short.*needed/],
      ["empty", { path: named("empty") }, /too short/],
      ["beyond", { path: named("a"), offsetBytes: DEVICE_BYTES, sizeBytes: DEVICE_BYTES }, /too short/],
    ];
    await scene.start({}, [...scene.devices, ...bad.map(([deviceId, device]) => ({ deviceId, ...device }))]);
    const devices = new Map((await scene.list()).devices.map((device) => [device.deviceId, device]));
    for (const [deviceId, , reason] of bad) {
      const device = devices.get(deviceId);
      expect(device, deviceId).to.include({ health: "HEALTH_ERROR", attached: false });
      expect(device?.healthMessage, deviceId).to.match(reason);
    }
    expect(devices.get("dev-a")).to.include({ health: "HEALTH_ONLINE", attached: true });
    // The agent opens a file that is too short, and closes it after the check.
    await eventually(() =>
      expect(["a", "b", "short", "fifo"].map((name) => scene.held(name))).to.deep.equal([1, 1, 0, 0]),
    );
    const order = await scene.orders();
    expect(await order.attach("missing")).to.equal(IO_ERROR);
    expect(await order.attach("dev-a")).to.equal(ALREADY);
    makeDeviceFile(folder, "missing", DEVICE_BYTES);
    expect(await order.attach("missing")).to.equal(DONE);
    expect(scene.held("missing")).to.equal(1);
    // A replaced file causes a registration, because a heartbeat does not report it.
    await eventually(
      () =>
        registry.registrations
          .at(-1)
          ?.devices.some(({ deviceId, health }) => deviceId === "missing" && health === "HEALTH_ONLINE") ?? false,
    );
  });

  it("refuses a config with overlapping or repeated devices in one line", async () => {
    const path = scene.path("a");
    const failed = await scene
      .start({}, [
        { deviceId: "dev-a", path, sizeBytes: 8192 },
        { deviceId: "dev-b", path, offsetBytes: 4096, sizeBytes: 8192 },
        { deviceId: "dev-a", path: scene.path("b"), sizeBytes: 4096 },
      ])
      .catch((error: Error) => error.message);
    expect(failed).to.match(/overlaps dev-a/);
    expect(failed).to.match(/dev-a is used twice/);
  });
});
