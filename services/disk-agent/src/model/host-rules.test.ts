import { readFileSync } from "node:fs";
import { expect } from "chai";
import { imageOf } from "../engines/nbdfuse.js";
import { driveRules, KEEP_OFF, lastingLink, parseUdevData, rejectsInLvm } from "./host-rules.js";

const DISKS = new URL("../../../../deploy/host/59-diskmesh-disks.rules", import.meta.url);

describe("rules that keep a host's programs off drives", () => {
  const drive = { path: "/dev/sdb", name: "disk/by-id/nvme-A_1", isLink: true };

  it("name each drive, apply to its partitions, and end with what the rules of disks have", () => {
    const lines = driveRules([drive, { path: "/dev/sdc", name: "sdc", isLink: false }], ['"/dev/sda": mounted']).split(
      "\n",
    );
    expect(lines).to.include.members([
      '# left out: "/dev/sda": mounted',
      'ENV{DEVTYPE}=="partition", IMPORT{parent}="DISKMESH"',
      'SYMLINK=="disk/by-id/nvme-A_1", ENV{DISKMESH}="1"',
      'KERNEL=="sdc", ENV{DISKMESH}="1"',
    ]);
    const disks = readFileSync(DISKS, "utf8").split("\n");
    for (const line of KEEP_OFF) expect(disks).to.include(line);
  });

  it("of disks match the file of which an agent makes a block device, and no other loop device", () => {
    const [, pattern = ""] = /ATTR\{loop\/backing_file\}=="([^"]*)"/.exec(readFileSync(DISKS, "utf8")) ?? [];
    const regex = new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
    expect(imageOf("/var/lib/diskmesh-disk-agent/exports", 17)).to.match(regex);
    for (const file of ["/var/lib/lxd/disks/default.img", "/exports/session-x.img", "/"])
      expect(file).not.to.match(regex);
  });

  it("never contain a name that udev would read as a pattern or as the end of the rule", () => {
    for (const name of ["disk/by-id/nvme-*", 'x", RUN+="y', "a\nb", "a|b", "$kernel"]) {
      const rules = driveRules([{ ...drive, path: `/dev/${name}`, name }], [`"${name.replace("\n", "\\n")}": mounted`]);
      expect(rules).not.to.match(/^(?:SYMLINK|KERNEL)==/m);
      expect(rules).not.to.match(/^b/m);
    }
  });

  it("name a drive by its id, else by its place", () => {
    const { links, isMarked } = parseUdevData(
      "S:disk/by-path/pci-1\nS:disk/by-id/wwn-2\nS:disk/by-id/ata-1\nE:DISKMESH=1\nG:x\n",
    );
    expect([lastingLink(links), isMarked]).to.deep.equal(["disk/by-id/ata-1", true]);
    expect(lastingLink(["disk/by-diskseq/1", "disk/by-path/pci-1"])).to.equal("disk/by-path/pci-1");
    expect(lastingLink(parseUdevData("E:DISKMESH=10\n").links)).to.equal(undefined);
    expect(parseUdevData("E:DISKMESH=10\n").isMarked).to.equal(false);
  });

  const filters: [string, boolean][] = [
    ['global_filter="r|^/dev/diskmesh/|"', true],
    ['global_filter=["r|^/dev/diskmesh/|","a|.*|"]', false],
    ['global_filter=["a|.*|"]', false],
    ['global_filter=["a|.*|","r|^/dev/diskmesh/|"]', false],
    ['global_filter=["a|^/dev/sda|","r|.*|"]', true],
    ['global_filter=["r/^\\/dev\\/loop/"]', true],
    ['global_filter=["r|^/dev/sd|"]', false],
    ['global_filter=["r|(|"]', false],
    ["", false],
  ];
  for (const [filter, isRejected] of filters)
    it(`LVM ${isRejected ? "rejects" : "accepts"} a disk with ${filter || "no filter"}`, () => {
      expect(rejectsInLvm(filter, ["/dev/loop0", "/dev/diskmesh/loop0"])).to.equal(isRejected);
    });
});
