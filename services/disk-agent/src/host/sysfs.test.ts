import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { fileOpener } from "../testing/slow-files.js";
import { diskSequence, drivePlaceOf, serialNumberOf } from "./sysfs.js";

describe("the kernel's facts about a drive", () => {
  // Folder with the layout of Linux: dev/block holds links into the folders of the drives, and partitions are folders
  // within them.
  const sysfs = temporaryFolder();
  const file = (path: string, text: string | Buffer) => {
    mkdirSync(dirname(join(sysfs, path)), { recursive: true });
    writeFileSync(join(sysfs, path), text);
  };
  const link = (number: string, to: string) => {
    mkdirSync(join(sysfs, "dev/block"), { recursive: true });
    symlinkSync(join("../..", to), join(sysfs, "dev/block", number));
  };

  before(() => {
    file("devices/virtio/vda/serial", "disk-7\n");
    file("devices/virtio/vda/diskseq", "9\n");
    file("devices/virtio/vda/vda1/partition", "1\n");
    file("devices/virtio/vda/vda1/start", "2048\n");
    file("devices/nvme/nvme0n1/device/serial", "S4EV  \n");
    file("devices/scsi/sda/device/vpd_pg80", Buffer.from("\0\x80\0\x08  WD-42\0", "latin1"));
    file("devices/dm/dm-0/dm/uuid", "LVM-abc\n");
    file("devices/md/md0/md/uuid", "3f2b8c1e-7d1f\n");
    file("devices/loop/loop0/diskseq", "21\n");
    for (const [number, name] of [
      ["252:16", "vdb"],
      ["252:32", "vdc"],
    ] as const) {
      file(`devices/virtio/${name}/serial`, "cloned\n");
      file(`devices/virtio/${name}/${name}1/partition`, "1\n");
      mkdirSync(join(sysfs, `devices/${name}-hardware`));
      symlinkSync(`../../${name}-hardware`, join(sysfs, `devices/virtio/${name}/device`));
      link(number, `devices/virtio/${name}`);
      link(number.replace(/.$/, "3"), `devices/virtio/${name}/${name}1`);
    }
    for (const [number, name] of [
      ["259:1", "nvme1n1"],
      ["259:2", "nvme1n2"],
    ] as const) {
      file("devices/nvme1/serial", "S5\n");
      mkdirSync(join(sysfs, `devices/nvme/${name}`));
      symlinkSync("../../nvme1", join(sysfs, `devices/nvme/${name}/device`));
      link(number, `devices/nvme/${name}`);
    }
    link("252:0", "devices/virtio/vda");
    link("252:1", "devices/virtio/vda/vda1");
    link("259:0", "devices/nvme/nvme0n1");
    link("8:0", "devices/scsi/sda");
    link("253:0", "devices/dm/dm-0");
    link("9:0", "devices/md/md0");
    link("7:0", "devices/loop/loop0");
  });

  it("name the drive of a partition, and the partition's start in bytes", async () => {
    expect(await drivePlaceOf("252:0", sysfs)).to.deep.equal({ name: "vda", startBytes: 0 });
    expect(await drivePlaceOf("252:1", sysfs)).to.deep.equal({ name: "vda", startBytes: 1024 * 1024 });
  });

  for (const [kind, number, serial, sequence] of [
    ["a virtio drive", "252:0", "disk-7", "9"],
    ["a partition -> the drive's, with its number", "252:1", "disk-7-part1", "9"],
    ["an NVMe drive", "259:0", "S4EV", ""],
    ["a SCSI drive", "8:0", "WD-42", ""],
    ["a device mapper device -> its uuid", "253:0", "LVM-abc", ""],
    ["an md array -> its uuid", "9:0", "3f2b8c1e-7d1f", ""],
    ["a drive with the serial number of another -> none", "252:16", "", ""],
    ["the other one -> none", "252:32", "", ""],
    ["a partition of such a drive -> none", "252:13", "", ""],
    ["a namespace of an NVMe drive with two -> the drive's", "259:2", "S5", ""],
    ["a loop device -> none", "7:0", "", "21"],
    ["a drive that is gone -> none", "1:1", "", ""],
  ] as const)
    it(kind, async () => {
      expect(await serialNumberOf(number, sysfs)).to.equal(serial);
      expect(await diskSequence(number, sysfs)).to.equal(sequence);
    });

  it("include the serial number of a real drive of this machine", async function () {
    const names = existsSync("/sys/block") ? readdirSync("/sys/block") : [];
    const name = names.find((one) => existsSync(`/sys/block/${one}/serial`) && existsSync(`/dev/${one}`));
    if (name === undefined) return skipBecause(this, "no drive of this machine shows a serial number");
    const shown = readFileSync(`/sys/block/${name}/serial`, "utf8").trim();
    if (shown === "") return skipBecause(this, "the drive of this machine has an empty serial number");
    expect((await fileOpener.look(`/dev/${name}`)).serialNumber).to.equal(shown);
  });
});
