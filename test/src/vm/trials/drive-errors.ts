import { existsSync, rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { DEVICE_BYTES, DriveErrors, EngineScene, noise } from "@diskmesh/disk-agent/testing";
import { silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { Devices, pathOf, SECTOR_BYTES } from "./device-mapper.js";
import { makeDrives, unwind } from "./engine-drives.js";

const BLOCK_BYTES = 4_096;
const SECTORS = DEVICE_BYTES / SECTOR_BYTES;

describe("a failed request of a disk of the kernel engine", () => {
  /** Makes a loop device whose second half fails. */
  const makeLoop = async (devices: Devices, drive: string): Promise<string> => {
    const table = [`0 ${SECTORS} linear ${drive} 0`, `${SECTORS} ${SECTORS} error`];
    return devices.loop(pathOf(await devices.create("below", table.join("\n"))), "--direct-io=on");
  };
  /** Drives of the virtual machine fail writes to the first sector of the second half. */
  const emulated = (path: string) => async () => path;

  for (const { kind, make, path } of [
    { kind: "loop device", make: makeLoop, path: "/dev/loop-control" },
    ...["/dev/vda", "/dev/sda", "/dev/nvme0n1"].map((each) => ({
      kind: `drive ${each}`,
      make: emulated(each),
      path: each,
    })),
  ])
    it(`makes the device ERROR whose bytes have failed, not the one beside it on the ${kind}`, async function () {
      if (process.pid !== 1 && path !== "/dev/loop-control") this.skip();
      expect(existsSync(path), path).to.equal(true);
      await using devices = new Devices();
      const { folder, drives } = await makeDrives(devices);
      const drive = await make(devices, drives.shared);
      rmSync(join(folder, "shared"));
      symlinkSync(drive, join(folder, "shared"));
      const scene = new EngineScene("kernel", { folder });
      devices.later(() => unwind(scene));
      await scene.start();
      const errors = await DriveErrors.open(silentLogger);
      devices.later(() => errors.close());
      const { devices: table, ledger } = scene.fixture;
      const noted = async () => {
        await errors.look(table);
        return [...table.hardwareErrors.unreported(ledger.memory)].map(([id, { message }]) => [id, message]);
      };
      const client = await scene.use(await scene.publish("disk-1", 1, ["c", "d"]));
      devices.later(() => client.disconnect());
      await client.write(0, noise(BLOCK_BYTES));
      expect(await noted()).to.deep.equal([]);
      const failure = await rejection(client.write(DEVICE_BYTES, noise(BLOCK_BYTES)), Error);
      // A failed write to NVMe is an error of the medium.
      expect(failure.message).to.match(/^(EIO|ENODATA)/);
      const said = `error of drive ${basename(drive)} at sector ${SECTORS} (WRITE)`;
      const isSaid = (message: string) =>
        /^the kernel has logged: (I\/O|critical medium) /.test(message) && message.endsWith(said);
      await eventually(async () => {
        const [[id, message] = [], ...others] = await noted();
        expect([id, others, isSaid(message ?? "")], message).to.deep.equal(["d", [], true]);
      });
    });
});
