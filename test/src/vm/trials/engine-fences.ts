import { readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beginBlockFlood, DEVICE_BYTES, dmsetup, EngineScene } from "@diskmesh/disk-agent/testing";
import type { DeviceId, DiskId } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { Devices, mountNew, NO_FREEZE, pathOf, SECTOR_BYTES } from "./device-mapper.js";
import { call, makeDrives, sectorsWrittenTo, unwind } from "./engine-drives.js";
import { expectSyncToFail, writeUntilFailure } from "./failing-files.js";

const DISK = "disk-1" as DiskId;
const DEPTH = 16;
const ROUNDS = 3;
const MOUNTED_BYTES = 320 * 1024 * 1024;
const DIRTY_BYTES = 8 * 1024 * 1024;
/** Time in ms after a grant in which a late write would land. */
const LATE_MS = 200;

describe("fences of the kernel engine", () => {
  it("change no byte under a writer, of one and of two devices", async () => {
    const scene = new EngineScene("kernel");
    await scene.start();
    try {
      for (let round = 1; round <= ROUNDS; round++) {
        const ids = round % 2 === 0 ? ["a"] : ["a", "b"];
        const flood = await beginBlockFlood(await scene.publish(DISK, 2 * round, ids), DEPTH);
        await eventually(() => flood.writes() > DEPTH);
        await scene.open(DISK, 2 * round + 1, ids);
        const granted = ids.map((id) => scene.bytesOf(id));
        await flood.ended;
        await sleep(LATE_MS);
        expect(ids.map((id) => scene.bytesOf(id))).to.deep.equal(granted);
        expect([...flood.errors]).to.deep.equal(["EIO"]);
      }
    } finally {
      await scene.stop();
    }
  });

  it("wait for a drive that hangs, and for no other one", async () => {
    await using devices = new Devices();
    const { folder, drives } = await makeDrives(devices);
    const sectors = DEVICE_BYTES / SECTOR_BYTES;
    const hung = await devices.create("hung", `0 ${sectors} linear ${drives.a} 0`);
    rmSync(join(folder, "a"));
    symlinkSync(realpathSync(pathOf(hung)), join(folder, "a"));
    const scene = new EngineScene("kernel", { folder });
    devices.later(() => unwind(scene));
    devices.later(() => call("dmsetup", "resume", hung));
    await scene.start();
    const flood = await beginBlockFlood(await scene.publish(DISK, 1, ["a", "b"]), DEPTH);
    await eventually(() => flood.writes() > DEPTH);
    await call("dmsetup", "suspend", ...NO_FREEZE, hung);
    scene.fixture.hasHungDrive = true;
    const stamp = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1, deviceGeneration: 0 };
    const wish = { number: 2, purpose: "disk" as const, diskId: DISK, holderHostId: "host-1" };
    const runs = ["a", "b"].map((id) => ({ deviceId: id as DeviceId, offsetBytes: 0, sizeBytes: 0 }));
    const [ofHung, ofOther] = await scene.fixture.sessions.open(runs, wish, stamp, { waitMs: 5_000 });
    expect(ofOther?.outcome).to.equal("done");
    expect(ofHung?.outcome).to.equal("pending");
    expect(ofHung?.message).to.match(/the drive has not answered all I\/O of an earlier session on device a/);
    await call("dmsetup", "resume", hung);
    scene.fixture.hasHungDrive = false;
    await scene.open(DISK, 2, ["a", "b"]);
    const granted = await sectorsWrittenTo(drives.a);
    await flood.ended;
    await sleep(LATE_MS);
    expect(await sectorsWrittenTo(drives.a)).to.equal(granted);
    expect([...flood.errors]).to.deep.equal(["EIO"]);
  });

  for (const type of ["ext4", "xfs"] as const)
    for (const state of ["dirty", "frozen", "under writers that sync"])
      it(`let nothing more of a mounted ${type}, ${state}, to its drive, and end its device with the unmount`, async () => {
        await using devices = new Devices();
        let wipes = 0;
        const options = {
          deviceBytes: MOUNTED_BYTES,
          whyNoBlockDevices: "the test uses sockets",
          dmsetup: async (...call: Parameters<typeof dmsetup>) => {
            const output = await dmsetup(...call);
            if (call[0][0] === "wipe_table") wipes += 1;
            return output;
          },
        };
        const { folder, drives } = await makeDrives(devices, MOUNTED_BYTES);
        const scene = new EngineScene("kernel", { folder }, options);
        devices.later(() => unwind(scene));
        await scene.start();
        const device = realpathSync(await scene.publish(DISK, 1, ["a"], MOUNTED_BYTES));
        const mounted = await mountNew(devices, type, device);
        const file = join(mounted, "dirty");
        writeFileSync(file, "");
        await call("sync", "--file-system", mounted);
        const failures: Promise<string>[] = [];
        if (state === "frozen") await call("fsfreeze", "--freeze", mounted);
        else writeFileSync(file, Buffer.alloc(DIRTY_BYTES, 1));
        if (state.startsWith("under")) {
          const before = await sectorsWrittenTo(drives.a);
          for (let index = 0; index < DEPTH; index++) failures.push(writeUntilFailure(join(mounted, `${index}`)));
          await eventually(async () => (await sectorsWrittenTo(drives.a)) > before + DEPTH);
        }
        await scene.open(DISK, 2, ["a"]);
        // Before anything that takes time: a wipe soon after the grant would come before most late writes.
        expect(wipes, "wipes that ended before the grant").to.equal(1);
        const granted = await sectorsWrittenTo(drives.a);
        const isSame = async () => expect(await sectorsWrittenTo(drives.a)).to.equal(granted);
        for (const failure of await Promise.all(failures)) expect(failure).to.match(/^(EIO|EROFS)/);
        if (state === "frozen")
          await call("fsfreeze", "--unfreeze", mounted).catch(() => "the thaw writes, which fails");
        if (state === "dirty") await expectSyncToFail(file);
        await sleep(LATE_MS);
        await isSame();
        const left = async () => (await scene.mapper?.list())?.map(({ role }) => role.kind).sort();
        await eventually(async () => expect(await left()).to.deep.equal(["disk", "guard", "guard", "guard"]));
        const fresh = realpathSync(await scene.publish(DISK, 3, ["a"], MOUNTED_BYTES));
        expect(fresh).to.not.equal(device);
        expect(readFileSync(`/sys/block/${basename(fresh)}/dm/uuid`, "utf8")).to.match(
          /^DISKMESH-.*-disk-3-\d+-disk-1$/m,
        );
        await scene.exports.end(DISK, 3);
        await call("umount", mounted);
        await isSame();
        await eventually(async () => expect(await left()).to.deep.equal(["guard", "guard", "guard"]));
        await call("mount", "-t", "tmpfs", "tmpfs", mounted);
      });
});
