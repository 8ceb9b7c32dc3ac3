import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { AgentScene, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";
import { holdersOf } from "../testing/file-holders.js";

const BLOCK_BYTES = 4096;
const MAIN_FILE = fileURLToPath(new URL("../main.js", import.meta.url));
const run = promisify(execFile);

describe("an agent with storage daemons", () => {
  const scene = AgentScene.forEachTest();
  let session: number;

  beforeEach(async function () {
    skipWithout(this, "qemu-storage-daemon");
    session = 0;
    await scene.start({ engine: "qemu", tuning: { rescanIntervalMs: 500 } });
  });

  afterEach(async () => {
    if (scene.agent === undefined) return;
    await scene.agent.process.kill();
    await endSessions();
  });

  /** Runs the agent's program with `--end-sessions`. */
  const endSessions = async (): Promise<void> => {
    const { tuning: _, ...config } = scene.agent.process.config as Record<string, unknown>;
    const file = join(scene.folder, "end-sessions.yaml");
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    await run(process.execPath, [MAIN_FILE, "--config", file, "--end-sessions"]);
  };

  const publish = async (deviceIds = ["dev-a", "dev-b"]): Promise<string> => {
    const orders = await scene.orders(scene.registry.registrations.length - 1);
    session += 1;
    const extents = deviceIds.map((deviceId) => ({
      deviceId,
      hostId: "host-1",
      sizeBytes: DEVICE_BYTES,
    }));
    const { outcomes } = await orders.exportAtOnce("disk-1", session, extents);
    expect(outcomes.map(({ outcome }) => outcome)).to.deep.equal(deviceIds.map(() => DONE));
    // The daemon's socket, also where the disk is offered as a block device.
    return join(scene.agent.baseFolder, "exports", "disk-1.sock");
  };

  /** Writes blocks one after another until `stop`, and returns the last acknowledged content of each. */
  const beginWrites = async (socketPath: string, sizeBytes: number) => {
    const client = await NbdClient.connect({ socketPath });
    const acknowledged = Buffer.alloc(sizeBytes);
    let isOver = false;
    let count = 0;
    const write = async () => {
      while (!isOver) {
        const at = BLOCK_BYTES * (count % (sizeBytes / BLOCK_BYTES));
        count += 1;
        const data = Buffer.alloc(BLOCK_BYTES, count % 251);
        await client.write(at, data, { fua: count % 16 === 0 });
        acknowledged.set(data, at);
      }
    };
    const running = write();
    // Some tests expect the end of the writes, and look at it later.
    running.catch(() => undefined);
    return {
      client,
      acknowledged,
      count: () => count,
      running,
      stop: async () => {
        isOver = true;
        await running;
      },
    };
  };

  it("fails no write while it is killed and restarted, and takes the sessions over", async () => {
    const writes = await beginWrites(await publish(), 2 * DEVICE_BYTES);
    for (const how of ["kill", "stop", "kill"] as const) {
      const before = writes.count();
      await scene.agent.process[how]();
      await eventually(() => writes.count() > before);
      await scene.agent.process.start();
      const after = writes.count();
      await eventually(() => writes.count() > after);
    }
    expect(scene.logged("export adopted").length).to.equal(3);
    await writes.stop();
    expect((await writes.client.read(0, 2 * DEVICE_BYTES)).equals(writes.acknowledged)).to.equal(true);
    await writes.client.disconnect();
  });

  it("ends the daemon of a session that was superseded before its restart", async () => {
    const writes = await beginWrites(await publish(["dev-a"]), DEVICE_BYTES);
    await scene.agent.process.kill();
    await scene.agent.process.start();
    const orders = await scene.orders(1);
    session += 1;
    expect(await orders.openSession(["dev-a"], session, "disk-1", "host-2")).to.deep.equal([DONE]);
    const granted = readFileSync(scene.path("a"));
    await writes.running.catch(() => undefined);
    expect(readFileSync(scene.path("a")).equals(granted)).to.equal(true);
  });

  /** Restarts the agent while the daemon is stopped, and returns the function that lets the daemon go on. */
  const restartBesideStopped = async () => {
    const pid = Number(readFileSync(join(scene.agent.baseFolder, "exports", `session-${session}.pid`), "utf8"));
    await scene.agent.process.kill();
    process.kill(pid, "SIGSTOP");
    await scene.agent.process.start();
    expect(scene.logged("export adopted").length).to.equal(1);
    return () => process.kill(pid, "SIGCONT");
  };

  it("fails no write of a daemon that is too slow to answer its next life", async () => {
    const writes = await beginWrites(await publish(["dev-a"]), DEVICE_BYTES);
    const goOn = await restartBesideStopped();
    goOn();
    // The change to the order's revision needs the daemon's answer.
    await eventually(() => expect(scene.logged("export changed").length).to.equal(1));
    await writes.stop();
    expect((await writes.client.read(0, DEVICE_BYTES)).equals(writes.acknowledged)).to.equal(true);
    await writes.client.disconnect();
  });

  it("kills a daemon that never answered it as soon as its session is superseded", async () => {
    await publish(["dev-a"]);
    await restartBesideStopped();
    const orders = await scene.orders(1);
    session += 1;
    expect(await orders.openSession(["dev-a"], session, "disk-1", "host-2")).to.deep.equal([DONE]);
    expect(holdersOf(scene.path("a"))).to.deep.equal([scene.agent.process.pid]);
  });

  it("ends all daemons with --end-sessions, and serves the disk again at its next start", async () => {
    const client = await NbdClient.connect({ socketPath: await publish() });
    await client.write(0, Buffer.alloc(BLOCK_BYTES, 5), { fua: true });
    await scene.agent.process.stop();
    await client.read(0, BLOCK_BYTES);
    await endSessions();
    await rejection(client.read(0, BLOCK_BYTES));
    await scene.agent.process.start();
    await scene.orders(1);
    const again = await NbdClient.connect({ socketPath: join(scene.agent.baseFolder, "exports", "disk-1.sock") });
    expect((await again.read(0, BLOCK_BYTES)).equals(Buffer.alloc(BLOCK_BYTES, 5))).to.equal(true);
    await again.disconnect();
  });
});
