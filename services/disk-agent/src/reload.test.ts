import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene, DEVICE_BYTES } from "./testing/agent-scene.js";
import { makeDeviceFile } from "./testing/device-fixture.js";

const MAIN_FILE = fileURLToPath(new URL("./main.js", import.meta.url));

describe("SIGHUP of an agent", () => {
  const scene = AgentScene.forEachTest();
  beforeEach(() => scene.start());

  const reload = (devices: readonly object[], change: object = {}): void =>
    scene.agent.process.reload({ ...scene.agent.process.config, devices, ...change });

  const reported = (): string[] =>
    (scene.registry.registrations.at(-1)?.devices ?? []).map(({ deviceId }) => deviceId).sort();

  it("adds new devices, which the next registration reports, and leaves changed and removed ones", async () => {
    await scene.registry.registered("host-1", 0);
    makeDeviceFile(scene.folder, "c", DEVICE_BYTES);
    const added = { deviceId: "dev-c", path: scene.path("c"), sizeBytes: DEVICE_BYTES };
    reload([...scene.devices, added]);
    await eventually(() => expect(reported()).to.deep.equal(["dev-a", "dev-b", "dev-c"]));
    expect(scene.agent.process.logs).to.match(/config reloaded: log level \w+"/);

    const [a, b] = scene.devices;
    reload([{ ...a, pool: "fast" }, { ...b, deviceId: "dev-renamed" }, added]);
    await eventually(() => expect(scene.agent.process.logs).to.match(/restart needed for devices/));
    expect(reported()).to.deep.equal(["dev-a", "dev-b", "dev-c"]);
  });

  it("does what --check-config has told of the running agent, which names the keys for a restart, too", async () => {
    await scene.registry.registered("host-1", 0);
    makeDeviceFile(scene.folder, "c", DEVICE_BYTES);
    const added = { deviceId: "dev-c", path: scene.path("c"), sizeBytes: DEVICE_BYTES };
    const [a, b] = scene.devices;
    const devices = [{ ...a, pool: "fast" }, added];
    const rate = { maxEraseBytesPerSecond: 2 * MIB_BYTES };
    const agent = `the running agent is process ${scene.agent.process.pid} .*\n`;
    expect(await checked({ devices: [a, b] })).to.match(
      new RegExp(`: good\nengine node carries .*\n${agent}  nothing changes\n$`),
    );
    const told =
      `${agent}  SIGHUP adds device dev-c at ${added.path}\n  SIGHUP sets maxEraseBytesPerSecond to 2097152\n` +
      "  a restart changes rack\n" +
      "  a restart changes device dev-a\n  a restart changes device dev-b: it is removed\n$";
    expect(await checked({ devices, rack: "r9", ...rate })).to.match(new RegExp(told));
    reload(devices, rate);
    await eventually(() => expect(reported()).to.deep.equal(["dev-a", "dev-b", "dev-c"]));
    await eventually(async () => {
      expect(await checked({ devices, ...rate })).not.to.match(/SIGHUP/);
    });
    await scene.agent.process.kill();
    expect(await checked({ devices })).to.match(/: good\nengine node carries .*\n$/);
  });

  async function checked(change: object): Promise<string> {
    const { tuning: _, ...config } = scene.agent.process.config as Record<string, unknown>;
    const file = join(scene.folder, "checked.yaml");
    writeFileSync(file, JSON.stringify({ ...config, ...change }), { mode: 0o600 });
    return (await promisify(execFile)(process.execPath, [MAIN_FILE, "--check-config", file])).stdout;
  }
});
