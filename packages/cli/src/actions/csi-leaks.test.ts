import { createHash } from "node:crypto";
import { DynamicDisk } from "@diskmesh/api/director";
import { expect } from "chai";
import { UsageError } from "../output/exit-codes.js";
import { isOfCluster, leaksIn, parseObjects, stagedLeaksIn } from "./csi-leaks.js";

const CREATED = new Date(1_000);
const nameOf = (digit: string) => `csi-${digit.repeat(32)}`;
const disk = (digit: string, hostId = "") =>
  DynamicDisk.fromPartial({ diskName: nameOf(digit), hostId, metadata: { csi_name: `pvc-${digit}` } });
const volume = (digit: string, driver = "csi.diskmesh") => ({
  kind: "PersistentVolume",
  metadata: { name: `pvc-${digit}` },
  spec: { csi: { driver, volumeHandle: nameOf(digit) } },
});
const attachment = (digit: string) => ({
  kind: "VolumeAttachment",
  spec: { source: { persistentVolumeName: `pvc-${digit}` } },
});

describe("leaks of CSI volumes", () => {
  it("are disks without a volume, attachments without a VolumeAttachment, and volumes without a disk", () => {
    const disks = [
      { ...disk("a"), createTime: CREATED, neverAttached: true },
      disk("b", "h-1"),
      disk("c", "h-1"),
      disk("d"),
      DynamicDisk.fromPartial({ diskName: "scratch" }),
    ];
    const objects = [volume("b"), attachment("b"), volume("c"), volume("d"), volume("e"), volume("f", "other.csi")];
    expect(leaksIn(disks, objects)).to.deep.equal([
      {
        ...{ name: nameOf("a"), volume: "pvc-a", node: "", since: CREATED },
        ...{ leak: "no PersistentVolume, never attached", cure: `diskmesh delete ${nameOf("a")}` },
      },
      {
        ...{ name: nameOf("c"), volume: "pvc-c", node: "host/h-1", since: undefined },
        ...{ leak: "no VolumeAttachment", cure: `diskmesh detach ${nameOf("c")}` },
      },
      {
        ...{ name: nameOf("e"), volume: "pvc-e", node: "", since: undefined },
        ...{ leak: "no disk", cure: "kubectl delete persistentvolume pvc-e" },
      },
    ]);
  });

  it("are looked for among the disks of the cluster, or of the deployment of its nodes", () => {
    const ofCluster = DynamicDisk.fromPartial({ metadata: { csi_cluster: "k8s" } });
    const ofDeployment = DynamicDisk.fromPartial({ deployment: "k8s", metadata: { csi_cluster: "other" } });
    const foreign = DynamicDisk.fromPartial({ metadata: { csi_cluster: "other" } });
    expect([ofCluster, ofDeployment, foreign, disk("a")].map((each) => isOfCluster(each, "k8s"))).to.deep.equal([
      ...[true, true, false, false],
    ]);
  });

  it("are file systems that a node has staged, but that no volume has", () => {
    const folder = "/var/lib/kubelet/plugins/kubernetes.io/csi";
    const staged = (driver: string, handle: string) =>
      `${folder}/${driver}/${createHash("sha256").update(handle).digest("hex")}/globalmount`;
    const [lost, known] = [staged("csi.diskmesh", nameOf("a")), staged("csi.diskmesh", nameOf("b"))];
    const paths = [lost, known, staged("other.csi", nameOf("a")), "/var/lib/kubelet/pods/uid/volumes/mount"];
    const mounts = [...paths, lost].map((path) => `36 35 7:1 / ${path} rw shared:1 - ext4 /dev/loop1 rw\n`).join("");
    expect(stagedLeaksIn(mounts, [volume("b"), volume("c")])).to.deep.equal([
      {
        name: "",
        volume: "",
        node: "",
        leak: `no volume, staged at ${lost}`,
        since: undefined,
        cure: `umount ${lost}`,
      },
    ]);
  });

  it("need a list of objects", () => {
    expect(parseObjects('{"kind":"List","items":[]}')).to.deep.equal([]);
    for (const wrong of ["", "{}", "null", "[]"])
      expect(() => parseObjects(wrong), wrong).to.throw(UsageError, "kubectl");
  });
});
