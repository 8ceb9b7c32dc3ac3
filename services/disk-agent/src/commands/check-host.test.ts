import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { configSchema } from "../base/config.js";
import { whyNoBlockDevices } from "../engines/block-devices.js";
import { attachLoop, detachLoops } from "../kernel/loop.js";
import { hostWarnings } from "./check-host.js";

const GOOD_FILTER = 'global_filter=["r|^/dev/diskmesh/|"]';
const DRIVE_BYTES = 1024 * 1024;

describe("a disk as a block device and the check of its host", () => {
  let root: string;
  let drive: string;

  before(async function () {
    const whyNot = await whyNoBlockDevices();
    if (whyNot !== undefined) skipBecause(this, whyNot);
  });

  beforeEach(async () => {
    root = temporaryFolder();
    writeFileSync(join(root, "drive"), Buffer.alloc(DRIVE_BYTES));
    drive = await attachLoop(join(root, "drive"));
  });

  afterEach(() => detachLoops(join(root, "drive")));

  const write = (path: string, text: string, mode = 0o600): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text, { mode });
  };

  /** Installs a program that prints this. */
  const install = (name: string, printed = ""): void =>
    write(`bin/${name}`, `#!/bin/sh\ncat <<'END'\n${printed}\nEND\n`, 0o700);

  /** Writes udev's record of the drive. */
  const record = (text: string): void =>
    write(`run/udev/data/b${readFileSync(`/sys/block/${basename(drive)}/dev`, "utf8").trim()}`, text);

  const warnings = (): Promise<readonly string[]> => {
    const config = configSchema.parse({
      hostId: "h1",
      az: "z1",
      listen: { host: "127.0.0.1", port: 0 },
      tls: { caFile: "/ca.pem", certFile: "/cert.pem", keyFile: "/key.pem" },
      registry: { address: "127.0.0.1:7030" },
      baseFolder: root,
      devices: [{ deviceId: "dev-a", path: drive }],
    });
    return hostWarnings(config, { root, path: join(root, "bin") });
  };

  it("has no warning where none of the programs is installed", async () => {
    expect(await warnings()).to.deep.equal([]);
  });

  it("names the missing rules of udev and their cure, and an empty file that hides them", async () => {
    write("run/udev/control", "");
    expect(await warnings()).to.deep.equal([
      "udev scans disks: 59-diskmesh-disks.rules is not installed. Copy host/59-diskmesh-disks.rules of the release to /etc/udev/rules.d, and run udevadm control --reload",
      `udev scans the drives ${drive}, for which no rule of diskmesh is in effect: write the output of --drive-rules to /etc/udev/rules.d/61-diskmesh-drives.rules, and run udevadm control --reload && udevadm trigger --settle --subsystem-match=block`,
    ]);
    record("E:DISKMESH=1\n");
    write("usr/lib/udev/rules.d/59-diskmesh-disks.rules", "rules");
    expect(await warnings()).to.deep.equal([]);
    write("etc/udev/rules.d/59-diskmesh-disks.rules", "");
    expect((await warnings()).join("\n")).to.match(/59-diskmesh-disks\.rules is empty/);
  });

  it("names a filter of LVM that accepts disks", async () => {
    install("lvm", 'global_filter=["a|.*|"]\nuse_devicesfile=0');
    const [warning, ...others] = await warnings();
    expect(warning).to.match(/^LVM activates .*\(global_filter=\["a\|\.\*\|"\]\)\. Add the pattern of host\/lvm\.conf/);
    expect(others).to.deep.equal([]);
    install("lvm", `${GOOD_FILTER}\nuse_devicesfile=0`);
    expect(await warnings()).to.deep.equal([]);
  });

  it("accepts LVM's list of devices instead of a filter, but only if there is one", async () => {
    install("lvm", 'global_filter=["a|.*|"]\nuse_devicesfile=1');
    expect(await warnings()).to.have.length(1);
    write("etc/lvm/devices/system.devices", "");
    expect(await warnings()).to.deep.equal([]);
  });

  it("names mdadm without AUTO -all in any of its files", async () => {
    install("mdadm");
    write("etc/mdadm/mdadm.conf", "# AUTO -all\nAUTO +1.x\nHOMEHOST <system>\n");
    expect((await warnings()).join("\n")).to.match(/^mdadm assembles .*"AUTO -all"/);
    write("etc/mdadm/mdadm.conf.d/diskmesh.conf", "# comment\nAUTO -all\n");
    expect(await warnings()).to.deep.equal([]);
  });

  it("names multipathd whose blacklist lacks drives", async () => {
    install("multipath", 'blacklist_exceptions {\n\tproperty "(SCSI_IDENT_|ID_WWN)"\n}');
    expect((await warnings()).join("\n")).to.match(/^multipathd takes drives.*conf\.d\/diskmesh\.conf/);
    install("multipath", 'blacklist {\n\tproperty "^DISKMESH$"\n}');
    expect(await warnings()).to.deep.equal([]);
  });
});
