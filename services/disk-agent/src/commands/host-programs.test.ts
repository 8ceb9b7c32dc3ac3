import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { configSchema } from "../base/config.js";
import { whyNoBlockDevices } from "../engines/block-devices.js";
import { attachLoop, detachLoops } from "../kernel/loop.js";
import { EngineScene } from "../testing/engine-scene.js";
import { driveRulesOf } from "./drive-rules.js";

const run = promisify(execFile);
const fromRepository = (path: string) => fileURLToPath(new URL(`../../../../${path}`, import.meta.url));
const SCRIPT = fromRepository("services/disk-agent/src/testing/host-programs.sh");
const shipped = (name: string) => fromRepository(`deploy/host/${name}`);
const DRIVE_BYTES = 8 * 1024 * 1024;
/** Offset of the superblock of version 1.2. */
const SUPERBLOCK_BYTES = 4096;

/** Writes what makes the device the only member that is left of an array of two. */
async function writeArrayMember(path: string): Promise<void> {
  const block = Buffer.alloc(260);
  const sectors = 2048n;
  block.writeUInt32LE(0xa92b4efc, 0);
  block.writeUInt32LE(1, 4);
  block.fill(0xd1, 16, 32);
  block.write("tenant:array", 32, "latin1");
  block.writeInt32LE(1, 72);
  block.writeBigUInt64LE(sectors, 80);
  block.writeUInt32LE(2, 92);
  block.writeBigUInt64LE(2048n, 128);
  block.writeBigUInt64LE(sectors, 136);
  block.writeBigUInt64LE(8n, 144);
  block.fill(0xd2, 168, 184);
  block.writeBigUInt64LE(17n, 200);
  block.writeBigUInt64LE((1n << 64n) - 1n, 208);
  block.writeUInt32LE(2, 220);
  block.writeUInt16LE(0xffff, 258);
  let sum = 0;
  for (let at = 0; at < block.length; at += 4) sum += block.readUInt32LE(at);
  block.writeUInt32LE(((sum % 2 ** 32) + Math.floor(sum / 2 ** 32)) % 2 ** 32, 216);
  await using device = await open(path, "r+");
  await device.write(block, 0, block.length, SUPERBLOCK_BYTES);
  await device.sync();
}

async function writePhysicalVolume(path: string): Promise<void> {
  const env = { ...process.env, LVM_SYSTEM_DIR: temporaryFolder(), LVM_SUPPRESS_FD_WARNINGS: "1" };
  const config = ["--config", "devices { use_devicesfile = 0 }"];
  await run("lvm", ["pvcreate", ...config, "--yes", "--metadatasize", "128k", "--dataalignment", "64k", path], { env });
  await run("lvm", ["vgcreate", ...config, "--physicalextentsize", "64k", "tenant", path], { env });
}

/** Settings of a host, as they are without diskmesh and as its guide makes them. */
interface Settings {
  readonly rules: Readonly<Record<string, string>>;
  readonly lvm: string;
  readonly mdadm: string;
}

const bare: Settings = { rules: {}, lvm: "", mdadm: "" };

async function hostsView(path: string, { rules, lvm, mdadm }: Settings): Promise<string> {
  const folder = temporaryFolder();
  for (const name of ["rules", "lvm"]) mkdirSync(join(folder, name));
  for (const [name, text] of Object.entries(rules)) writeFileSync(join(folder, "rules", name), text);
  writeFileSync(join(folder, "lvm/lvm.conf"), "devices { use_devicesfile = 0 }\n");
  writeFileSync(join(folder, "lvm/lvmlocal.conf"), lvm);
  // Keeps the test off the arrays of its host.
  writeFileSync(join(folder, "mdadm.conf"), `DEVICE ${path}\n${mdadm}`);
  const args = ["rules", "lvm", "mdadm.conf"].map((name) => join(folder, name));
  const { stdout } = await run("unshare", ["--mount", "sh", SCRIPT, basename(path), ...args], {
    maxBuffer: 16 * 1024 * 1024,
  });
  return stdout.slice(stdout.indexOf("== udev"));
}

describe("a disk as a block device and other programs of its host", () => {
  let protectedHost: Settings;

  before(async function () {
    skipWithout(this, "udevadm", "lvm", "mdadm", "unshare");
    const whyNot = await whyNoBlockDevices();
    if (whyNot !== undefined) skipBecause(this, whyNot);
    const lvm = readFileSync(shipped("lvm.conf"), "utf8");
    const mdadm = readFileSync(shipped("mdadm.conf"), "utf8");
    const name = "59-diskmesh-disks.rules";
    protectedHost = { rules: { [name]: readFileSync(shipped(name), "utf8") }, lvm, mdadm };
  });

  const contents = [
    {
      title: "a physical volume",
      write: writePhysicalVolume,
      taken: /\bLVM_VG_NAME_COMPLETE=tenant$[\s\S]*^== lvm\n[\s\S]*tenant[\s\S]*^== mdadm/m,
      never: /LVM2_member|pvscan|LVM_VG_NAME|tenant/,
    },
    {
      title: "a member of an array",
      write: writeArrayMember,
      taken: /\bID_FS_TYPE=linux_raid_member$/m,
      never: /linux_raid_member|mdadm --incremental|tenant:array/,
    },
  ];

  for (const { title, write, taken, never } of contents) {
    it(`no program takes ${title} inside a disk, which it does without the shipped rules`, async () => {
      const scene = new EngineScene("node", undefined, { exportKind: "DEVICE" });
      await scene.start();
      try {
        const path = realpathSync(await scene.publish("disk-1", 1, ["a", "b"]));
        await write(path);
        expect(await hostsView(path, bare)).to.match(taken);
        const view = await hostsView(path, protectedHost);
        expect(view).not.to.match(never);
        expect(view).not.to.match(/builtin command 'blkid'/);
        expect(view).to.match(/== holders\n$/);
        expect(view)
          .to.match(/\bSYSTEMD_READY=0$/m)
          .and.match(/\bUDISKS_IGNORE=1$/m);
      } finally {
        await scene.stop();
      }
    });

    it(`no program takes ${title} inside a drive, which it does without its rules`, async () => {
      const folder = temporaryFolder();
      const file = join(folder, "drive");
      writeFileSync(file, Buffer.alloc(DRIVE_BYTES));
      const path = await attachLoop(file);
      try {
        await write(path);
        expect(await hostsView(path, bare)).to.match(taken);
        const rules = await driveRulesOf(configWith(path, folder));
        const view = await hostsView(path, { ...protectedHost, rules: { "61-diskmesh-drives.rules": rules } });
        expect(view).not.to.match(never);
        expect(view).to.match(/\bID_FS_TYPE=diskmesh_member$/m);
        expect(view).to.match(/== holders\n$/);
      } finally {
        await detachLoops(file);
      }
    });
  }

  it("a drive that the host has mounted has no rule, because the host would not start with it", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "drive");
    writeFileSync(file, Buffer.alloc(DRIVE_BYTES));
    await run("mkfs.ext4", ["-q", file]);
    const path = await attachLoop(file);
    const mounted = join(folder, "mounted");
    mkdirSync(mounted);
    await run("mount", [path, mounted]);
    try {
      const rules = await driveRulesOf(configWith(path, folder));
      expect(rules).to.include(`# left out: "${path}": the host uses it\n`);
      expect(rules).not.to.match(/^KERNEL/m);
    } finally {
      await run("umount", [mounted]);
      await detachLoops(file);
    }
  });
});

function configWith(path: string, folder: string) {
  return configSchema.parse({
    hostId: "h1",
    az: "z1",
    listen: { host: "127.0.0.1", port: 0 },
    tls: { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" },
    registry: { address: "127.0.0.1:7030" },
    baseFolder: folder,
    devices: [{ deviceId: "dev-a", path }],
  });
}
