import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene, DEVICE_BYTES } from "./testing/agent-scene.js";
import { makeDeviceFile } from "./testing/device-fixture.js";

describe("SIGHUP of an agent", () => {
  const scene = AgentScene.forEachTest();
  beforeEach(() => scene.start());

  async function reload(devices: readonly object[]): Promise<void> {
    const config = { ...scene.agent.process.config, devices };
    writeFileSync(join(scene.folder, "host-1.yaml"), JSON.stringify(config), { mode: 0o600 });
    scene.agent.process.signal("SIGHUP");
  }

  const reported = (): string[] =>
    (scene.registry.registrations.at(-1)?.devices ?? []).map(({ deviceId }) => deviceId).sort();

  it("adds new devices, which the next registration reports, and leaves changed and removed ones", async () => {
    await scene.registry.registered("host-1", 0);
    makeDeviceFile(scene.folder, "c", DEVICE_BYTES);
    const added = { deviceId: "dev-c", path: scene.path("c"), sizeBytes: DEVICE_BYTES };
    await reload([...scene.devices, added]);
    await eventually(() => expect(reported()).to.deep.equal(["dev-a", "dev-b", "dev-c"]));
    expect(scene.agent.process.logs).to.match(/config reloaded: log level \w+"/);

    const [a, b] = scene.devices;
    await reload([{ ...a, pool: "fast" }, { ...b, deviceId: "dev-renamed" }, added]);
    await eventually(() => expect(scene.agent.process.logs).to.match(/restart needed for devices/));
    expect(reported()).to.deep.equal(["dev-a", "dev-b", "dev-c"]);
  });
});
