import { setTimeout as sleep } from "node:timers/promises";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "./mesh/fleets.js";
import {
  addHosts,
  deleteDisk,
  deployInstances,
  detachDisk,
  devicesReady,
  listDevices,
  openDisk,
  provideDisk,
  retrying,
  runTask,
} from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const DATA = Buffer.alloc(64 * 1024, "kept");

describe("the mesh when a part of it dies", () => {
  let mesh: TestMesh;
  let one = "";
  let two = "";

  before(async () => {
    mesh = await TestMesh.start(wholeFleet({ hosts: 2, devicesPerHost: 2, deviceSizeBytes: MIB_BYTES }));
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  it("registry killed right after AddHost was answered -> every device is ATTACHED all the same", async () => {
    await addHosts(mesh);
    await mesh.process("disk-registry").restart();
    await devicesReady(mesh);
    [one = "", two = ""] = await deployInstances(mesh);
    expect(one).not.to.equal("");
    expect(two).not.to.equal("");
  });

  it("registry killed -> the tablet generation grows, and no device generation is given out twice", async () => {
    const before = await listDevices(mesh);
    await mesh.process("disk-registry").restart();
    const after = await listDevices(mesh);
    expect(after.map((device) => device.deviceGeneration)).to.deep.equal(
      before.map((device) => device.deviceGeneration),
    );
    expect(after[0]?.tabletGeneration).to.be.above(before[0]?.tabletGeneration ?? 0);
    const highest = Math.max(...before.map((device) => device.deviceGeneration));
    const deviceId = "host-2-device-2";
    const remove = { hostId: "host-2", deviceId };
    await eventually(async () => {
      const { result } = await mesh.clients.registry.removeDevice(remove);
      if (result?.code !== "ACTION_CODE_S_OK") throw new Error(result?.message);
    });
    const { device } = await mesh.clients.registry.getDevice({ deviceId });
    expect(device?.deviceGeneration).to.be.above(highest);
    await mesh.clients.registry.addDevice(remove);
    await devicesReady(mesh);
  });

  for (const victim of ["director", "cpi-dispatcher", "disk-registry", "host-1", "host-2"])
    it(`${victim} killed while a disk is provided, moved and deleted -> every step comes to its end, no byte is lost`, async function () {
      if (victim !== "director") leaveToVerify(this);
      const diskName = `killed-${victim}`;
      // Killed again and again, at whatever the step is at: a start takes longer than most steps. Each time it lives
      // longer than before, or a slow machine would come to the end of none.
      const over = new AbortController();
      const killing = (async () => {
        for (let longer = 1; !over.signal.aborted; longer *= 1.2) {
          await mesh.process(victim).restart();
          const livesMs = longer * (300 + Math.random() * 2_000);
          await sleep(livesMs, undefined, { signal: over.signal }).catch(() => {});
        }
      })();
      try {
        const cid = await provideDisk(mesh, diskName, one);
        await writeThrough(cid, "host-1");
        await detachDisk(mesh, diskName);
        await provideDisk(mesh, diskName, two);
        expect(await readThrough(cid, "host-2")).to.equal(true);
        await detachDisk(mesh, diskName);
        await deleteDisk(mesh, diskName);
      } finally {
        over.abort();
        await killing;
      }
      const { disks } = await mesh.clients.registry.listDisks({ pageSize: 100 });
      expect(disks.map(({ diskId }) => diskId)).to.deep.equal([]);
      await devicesReady(mesh);
    });

  it("NATS restarted -> the director reaches the agents again by itself", async () => {
    const cid = await provideDisk(mesh, "nats", one);
    await mesh.nats.restart();
    await detachDisk(mesh, "nats");
    await provideDisk(mesh, "nats", two);
    await (await openDisk(mesh, "host-2", cid)).disconnect();
    await detachDisk(mesh, "nats");
    await deleteDisk(mesh, "nats");
  });

  it("an agent that stays dead -> its disk is taken away and found, unharmed, on another host", async () => {
    // On host-2's devices: those of host-1 are as dead as their agent.
    const request = {
      diskId: "survivor",
      sizeBytes: MIB_BYTES,
      hostId: "host-2",
    };
    // After its kills host-2 may be on probation, and takes no disks then.
    await retrying("CreateDisk", () => mesh.clients.registry.createDisk(request));
    await retrying("PublishDisk", () => mesh.clients.registry.publishDisk({ diskId: "survivor", hostId: "host-1" }));
    const { disk } = await mesh.clients.registry.getDisk({ diskId: "survivor" });
    await mesh.process("host-1").kill();
    await mesh.clients.registry.unpublishDisk({ diskId: "survivor" }, { deadlineMs: 60_000 });
    const moved = await retrying("PublishDisk", () =>
      mesh.clients.registry.publishDisk({ diskId: "survivor", hostId: "host-2" }),
    );
    expect(moved.disk?.publication?.sessionNumber).to.be.above(disk?.publication?.sessionNumber ?? 0);
    await mesh.process("host-1").start();
    await devicesReady(mesh);
    await mesh.clients.registry.unpublishDisk({ diskId: "survivor" });
    await mesh.clients.registry.deleteDisk({ diskId: "survivor" });
  });

  it("a task under way when the director is killed -> its successor ends the same task", async () => {
    const request = {
      diskName: "task",
      instanceId: one,
      diskPoolName: "default",
      sizeBytes: MIB_BYTES,
    };
    const { task } = await mesh.clients.disks.provideDisk(request);
    await mesh.process("director").restart();
    await runTask("the task", () => mesh.clients.tasks.getTask({ taskId: task?.taskId ?? 0 }));
    await detachDisk(mesh, "task");
    await deleteDisk(mesh, "task");
  });

  // A program on the host, which opens the disk again when its server went away: what was flushed must be there.
  async function writeThrough(cid: string, hostId: string): Promise<void> {
    await persistently(cid, hostId, async (client) => {
      await client.write(0, DATA);
      await client.flush();
    });
  }

  function readThrough(cid: string, hostId: string): Promise<boolean> {
    return persistently(cid, hostId, async (client) => (await client.read(0, DATA.length)).equals(DATA));
  }

  async function persistently<T>(
    cid: string,
    hostId: string,
    use: (client: Awaited<ReturnType<typeof openDisk>>) => Promise<T>,
  ): Promise<T> {
    const untilMs = performance.now() + 60_000;
    for (;;) {
      const client = await openDisk(mesh, hostId, cid);
      try {
        return await use(client);
      } catch (error) {
        if (performance.now() > untilMs) throw error;
      } finally {
        await client.disconnect().catch(() => {});
      }
    }
  }
});
