import { execFile } from "node:child_process";
import { readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ExportKind } from "@diskmesh/api/registry";
import { eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { whyNoBlockDevices } from "../engines/block-devices.js";
import { AgentScene, DEVICE_BYTES } from "../testing/agent-scene.js";
import { endLeftBlockDevices } from "./end-sessions.js";

const MAIN_FILE = fileURLToPath(new URL("../main.js", import.meta.url));
const run = promisify(execFile);

describe("the agent's --status", () => {
  const scene = AgentScene.forEachTest();
  beforeEach(() => scene.start());

  const status = async (): Promise<string> => {
    const { tuning: _, ...config } = scene.agent.process.config as Record<string, unknown>;
    const file = join(scene.folder, "status.yaml");
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    return (await run(process.execPath, [MAIN_FILE, "--config", file, "--status"])).stdout;
  };

  it("names the agent's process, each device's holder and session, and each export's socket", async () => {
    const orders = await scene.orders(0);
    const extent = { deviceId: "dev-a", hostId: "host-1", address: scene.agent.address, sizeBytes: DEVICE_BYTES };
    await orders.exportAtOnce("disk-1", 7, [extent]);
    const pid = scene.agent.process.pid;
    const running = await status();
    expect(running).to.match(new RegExp(`^host host-1: its agent is process ${pid} \\(`));
    expect(running).to.match(
      new RegExp(`dev-a: \\S+, held by process ${pid} .*; session 7 of disk disk-1, for host host-1`),
    );
    expect(running).to.match(/disk-1: session 7; \S+disk-1.sock is live; bytes on dev-a on host-1/);
    await scene.agent.process.kill();
    const killed = await status();
    expect(killed)
      .to.match(/^host host-1: no agent runs/)
      .and.match(/dev-a: \S+, held by no process/);
    expect(killed).to.match(/disk-1: session 7; \S+disk-1.sock is dead/);
  });

  it("tells a block device that works from one whose process has ended", async function () {
    const whyNot = await whyNoBlockDevices();
    if (whyNot !== undefined) skipBecause(this, whyNot);
    const orders = await scene.orders();
    const extent = { deviceId: "dev-a", hostId: "host-1", sizeBytes: DEVICE_BYTES };
    const { exportPath } = await orders.exportAtOnce("disk-1", 7, [extent], ExportKind.DEVICE);
    await scene.agent.process.kill();
    try {
      expect(await status()).to.include(`${exportPath} is the device ${readlinkSync(exportPath)}`);
      process.kill(Number(readFileSync(join(exportPath, "../session-7.img.pid"), "utf8")), "SIGKILL");
      await eventually(async () => expect(await status()).to.include(`${exportPath} is a device that has ended`));
    } finally {
      await endLeftBlockDevices(scene.agent.baseFolder);
    }
  });
});
