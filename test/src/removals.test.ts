import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type ActionResult, AttachState } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { HEAD_BYTES, makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

/** Size of a device's two slices. */
const SIZE = 2 * MIB_BYTES;
const SECRET = Buffer.alloc(SIZE - HEAD_BYTES, "a former user's secret ");
const ZEROS = Buffer.alloc(HEAD_BYTES + SIZE);

describe("devices that leave operation, and what is on them", () => {
  let mesh: TestMesh;

  beforeEach(async () => {
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["h1"],
        agent: (_, folder) => ({
          devices: ["d1", "d2"].map((deviceId) => ({
            deviceId,
            path: makeDeviceFile(join(folder, "files", deviceId), HEAD_BYTES + SIZE),
          })),
          maxEraseBytesPerSecond: MIB_BYTES,
          tuning: { eraseChunkBytes: 65_536, maxConcurrentErases: 1 },
        }),
      }),
    );
    await eventually(() => mesh.device("d2"));
    await mesh.clients.registry.addHost({ hostId: "h1" });
    for (const deviceId of ["d1", "d2"]) await until(deviceId, { attachState: AttachState.ATTACHED, dirty: false });
  });
  afterEach(() => mesh?.[Symbol.asyncDispose]());

  const bytesOf = (deviceId: string) => readFileSync(join(mesh.folder, "files", deviceId));
  /** Returns whether all bytes behind the label are zeros. */
  const isErased = (deviceId: string) =>
    bytesOf(deviceId)
      .subarray(HEAD_BYTES)
      .every((byte) => byte === 0);
  const until = (deviceId: string, fields: object) =>
    eventually(async () => {
      const device = await mesh.device(deviceId);
      expect(device, `${deviceId}: ${device.lastError} ${device.healthMessage}`).to.deep.include(fields);
    });
  const remove = async (deviceId: string, keepData = false): Promise<ActionResult> => {
    const request = { hostId: "h1", deviceId, keepData };
    const { result } = await mesh.clients.registry.removeDevice(request);
    if (result === undefined) throw new Error("the answer has no result");
    return result;
  };
  const removeHost = async (keepData = false) =>
    (await mesh.clients.registry.removeHost({ hostId: "h1", keepData })).result;
  /** Repeats the call until it succeeds. Returns all answers. */
  const untilRemoved = async (ask: () => Promise<ActionResult | undefined>): Promise<ActionResult[]> => {
    const answers: ActionResult[] = [];
    await eventually(async () => {
      const result = await ask();
      if (result !== undefined) answers.push(result);
      expect(result?.code, result?.message).to.equal("ACTION_CODE_S_OK");
    });
    return answers;
  };

  /** Creates a disk on every slice of every device, and fills it. */
  const useAll = async () => {
    await mesh.clients.registry.createDisk({ diskId: "x", sizeBytes: 2 * SECRET.length, az: "z1" });
    const { disk } = await mesh.clients.registry.publishDisk({ diskId: "x", hostId: "h1" });
    const client = await NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
    await client.write(0, SECRET);
    await client.write(SECRET.length, SECRET);
    await client.flush();
    await client.disconnect();
    for (const deviceId of ["d1", "d2"])
      expect(
        bytesOf(deviceId)
          .subarray(2 * HEAD_BYTES)
          .equals(SECRET),
        deviceId,
      ).to.equal(true);
  };
  const deleteDisk = async () => {
    await mesh.clients.registry.unpublishDisk({ diskId: "x" });
    await mesh.clients.registry.deleteDisk({ diskId: "x" });
  };

  it("RemoveHost overwrites a former user's data with zeros before S_OK, and reports the progress", async () => {
    await useAll();
    expect((await removeHost())?.dependentDiskIds).to.deep.equal(["x"]);
    const startedMs = performance.now();
    await deleteDisk();
    const answers = await untilRemoved(() => removeHost());
    expect(performance.now() - startedMs, "4 MiB at 1 MiB/s").to.be.above(3_900);
    const erasing = answers.flatMap(({ erase }) => (erase === undefined ? [] : [erase]));
    expect(new Set(erasing.map(({ bytesErased }) => bytesErased)).size, "progress").to.be.above(1);
    for (const { bytesToErase, bytesErased } of erasing) {
      expect(bytesToErase, "one after the other").to.be.oneOf([2 * SIZE, SIZE]);
      expect(bytesErased).to.be.within(0, bytesToErase);
    }
    expect(answers[0]?.message).to.match(/2 devices are being erased, .* of 4 MiB are done/);
    expect(answers.at(-1)?.unerasedDeviceIds).to.deep.equal([]);
    for (const deviceId of ["d1", "d2"]) {
      expect(bytesOf(deviceId).equals(ZEROS), deviceId).to.equal(true);
      await until(deviceId, { attachState: AttachState.DETACHED, detachConfirmed: true, dirty: false });
    }
  });

  describe("an erase that is skipped, interrupted or impossible", () => {
    before(function () {
      leaveToVerify(this);
    });

    it("keep_data erases no byte and is named in S_OK; the device is erased when it is added again", async () => {
      await useAll();
      expect((await remove("d1", true)).dependentDiskIds).to.deep.equal(["x"]);
      await until("d1", { keepData: true, removalRequested: true });
      await deleteDisk();
      await until("d2", { dirty: false });
      await until("d1", { attachState: AttachState.DETACHED, detachConfirmed: true, dirty: true });
      const removed = await remove("d1", true);
      expect(removed.code).to.equal("ACTION_CODE_S_OK");
      expect(removed.unerasedDeviceIds).to.deep.equal(["d1"]);
      expect(removed.message).to.contain("not erased, so they still have their data: d1");
      expect(
        bytesOf("d1")
          .subarray(2 * HEAD_BYTES)
          .equals(SECRET),
      ).to.equal(true);
      expect(isErased("d2")).to.equal(true);
      await mesh.clients.registry.addDevice({ hostId: "h1", deviceId: "d1" });
      await until("d1", { attachState: AttachState.ATTACHED, dirty: false, keepData: false, removalRequested: false });
      expect(isErased("d1")).to.equal(true);
    });

    it("an erase is complete before S_OK although registry and agent are killed in the middle of it", async () => {
      await useAll();
      await remove("d2");
      await deleteDisk();
      await eventually(async () => expect((await mesh.device("d2")).erasedBytes).to.be.above(0));
      await mesh.process("h1").kill();
      await mesh.process("disk-registry-1").kill();
      expect(isErased("d2"), "it was in the middle").to.equal(false);
      await Promise.all([mesh.process("disk-registry-1").start(), mesh.process("h1").start()]);
      await until("d2", { attachState: AttachState.DETACHED, detachConfirmed: true });
      expect(bytesOf("d2").equals(ZEROS)).to.equal(true);
    });

    it("a device whose drive is gone gets E_TRY_AGAIN with its error and the remedy, and keep_data removes it", async () => {
      await useAll();
      await deleteDisk();
      // Files that a process holds open can be deleted; the agent's next start does not find them.
      await mesh.process("h1").kill();
      rmSync(join(mesh.folder, "files", "d1"));
      await mesh.process("h1").start();
      await until("d1", { health: "HEALTH_ERROR", dirty: true });
      const stuck = await eventually(async () => {
        const result = await remove("d1");
        expect(result.message).to.contain("cannot be erased: d1 (ERROR: ");
        return result;
      });
      expect(stuck.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
      expect(stuck.message).to.match(/no such file.*RemoveDevice with keep_data/);
      expect((await untilRemoved(() => remove("d1", true))).at(-1)?.unerasedDeviceIds).to.deep.equal(["d1"]);
      // The device no longer delays the removal of the others.
      const rest = await untilRemoved(() => removeHost());
      expect(rest.at(-1)?.message).to.contain("not erased, so they still have their data: d1");
      expect(bytesOf("d2").equals(ZEROS)).to.equal(true);
    });
  });
});
