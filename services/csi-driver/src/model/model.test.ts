import { InvalidArgumentError, MIB_BYTES } from "@diskmesh/domain";
import { expect } from "chai";
import { accessOf, problemOf } from "./capability.js";
import { isInRange, OutOfRangeError, sizeFor } from "./capacity.js";
import { limitsFrom } from "./limits.js";
import { mountedAt, parseMountInfo } from "./mount-info.js";
import { nodeIdOf, parseNodeId } from "./node-id.js";
import { shownPath, shownVolume } from "./shown.js";
import { slowWarnings } from "./slow-work.js";
import { anywhereIn, isAccessible, placesFor, topologyOf } from "./topology.js";

const range = (requiredBytes: number, limitBytes = 0) => ({ requiredBytes, limitBytes });
const zones = (...azs: string[]) => azs.map((az) => ({ segments: { "csi.diskmesh/az": az } }));

describe("the capacity of a volume", () => {
  it("is the smallest number of MiB in the range", () => {
    expect(sizeFor(range(1))).to.equal(MIB_BYTES);
    expect(sizeFor(range(MIB_BYTES, MIB_BYTES))).to.equal(MIB_BYTES);
    expect(sizeFor(range(MIB_BYTES + 1))).to.equal(2 * MIB_BYTES);
    expect(sizeFor(undefined)).to.equal(1024 * MIB_BYTES);
    expect(sizeFor(range(0, 2 * MIB_BYTES + 1))).to.equal(2 * MIB_BYTES);
  });

  it("is refused when no number of MiB is in the range, and when the range contradicts itself", () => {
    for (const wrong of [range(1, MIB_BYTES - 1), range(0, 1)]) expect(() => sizeFor(wrong)).to.throw(OutOfRangeError);
    for (const wrong of [range(-1), range(0, -1), range(3, 2)])
      expect(() => sizeFor(wrong))
        .to.throw(InvalidArgumentError)
        .and.not.be.instanceOf(OutOfRangeError);
  });

  it("of an existing volume must be in the range", () => {
    expect([range(5), range(5, 5), range(0, 5), undefined].every((each) => isInRange(5, each))).to.equal(true);
    expect([range(6), range(0, 4)].some((each) => isInRange(5, each))).to.equal(false);
  });
});

describe("the topology of a volume", () => {
  it("is tried in the order of preference, or in that of the config without a requirement", () => {
    const requirement = { requisite: zones("a", "b", "c"), preferred: zones("c", "b") };
    const defaults = ["y", "z"].map(anywhereIn);
    expect(placesFor(requirement, defaults).map(({ az }) => az)).to.deep.equal(["c", "b", "a"]);
    expect(placesFor(undefined, defaults)).to.deep.equal(defaults);
    expect(() => placesFor({ requisite: [{ segments: { rack: "r" } }], preferred: [] }, [])).to.throw("segments rack");
  });

  for (const kind of ["hostId", "instanceId"])
    it(`of nodes with ${kind} is that of the first preferred node in each AZ, and a volume is accessible in its whole AZ`, () => {
      const nodeOf = (az: string, id: string) => ({ ...anywhereIn(az), [kind]: id });
      const [n1, n2, n3] = [
        topologyOf(nodeOf("a", "n1")),
        topologyOf(nodeOf("a", "n2")),
        topologyOf(nodeOf("b", "n3")),
      ];
      const requirement = { requisite: [n1, n3, n2], preferred: [n2, n1] };
      expect(placesFor(requirement, [])).to.deep.equal([nodeOf("a", "n2"), nodeOf("b", "n3")]);
      expect(isAccessible("a", { requisite: [n1], preferred: [] })).to.equal(true);
      expect(topologyOf(anywhereIn("a"))).to.deep.equal({ segments: { "csi.diskmesh/az": "a" } });
    });

  it("of an existing volume must be a requisite one", () => {
    expect(isAccessible("a", { requisite: zones("a"), preferred: [] })).to.equal(true);
    expect(isAccessible("b", { requisite: zones("a"), preferred: [] })).to.equal(false);
    expect(isAccessible("b", undefined)).to.equal(true);
  });
});

describe("the ID of a node", () => {
  for (const [given, instanceId, hostId, id] of [
    ["i-1", "i-1", "", "i-1"],
    ["instance/i-1", "i-1", "", "i-1"],
    ["host/h1", "", "h1", "host/h1"],
  ] as const)
    it(`${given} -> ${hostId === "" ? `instance ${instanceId}` : `host ${hostId}`}`, () => {
      expect(parseNodeId(given)).to.deep.equal({ instanceId, hostId });
      expect(nodeIdOf(parseNodeId(given))).to.equal(id);
    });

  for (const wrong of ["", "host/", "instance/", "host/a/b", "other/h1", "host/..", "instance/host/h1", "h 1"])
    it(`${JSON.stringify(wrong)} -> is refused`, () => {
      expect(() => parseNodeId(wrong)).to.throw(InvalidArgumentError, "node_id");
    });
});

describe("a capability", () => {
  const mount = (value: object = {}) => ({
    $case: "mount" as const,
    value: { fsType: "", mountFlags: [], volumeMountGroup: "", ...value },
  });
  const withMode = (mode: string) => ({ accessType: mount(), accessMode: { mode } });

  it("says how a volume is used", () => {
    const accessMode = { mode: "SINGLE_NODE_WRITER" };
    const wanted = { fsType: "xfs", mountFlags: ["noatime"], volumeMountGroup: "5000" };
    expect(accessOf({ accessType: mount(wanted), accessMode })).to.deep.equal({
      isReadOnly: false,
      isShared: false,
      mount: { fileSystem: "xfs", flags: ["noatime"], groupId: 5000 },
    });
    expect(accessOf({ accessType: { $case: "block", value: {} }, accessMode }, true)).to.deep.equal({
      isReadOnly: true,
      isShared: false,
      mount: undefined,
    });
    expect(accessOf(withMode("SINGLE_NODE_MULTI_WRITER")).isShared).to.equal(true);
    expect(accessOf(withMode("SINGLE_NODE_READER_ONLY")).isReadOnly).to.equal(true);
  });

  it("is refused for several nodes, for an unknown file system, and when a part is missing", () => {
    const accessMode = { mode: "SINGLE_NODE_WRITER" };
    const wrong = [
      ...["MULTI_NODE_READER_ONLY", "MULTI_NODE_SINGLE_WRITER", "MULTI_NODE_MULTI_WRITER", "UNKNOWN", "toString"].map(
        withMode,
      ),
      { accessType: undefined, accessMode },
      { accessType: mount(), accessMode: undefined },
      { accessType: mount({ fsType: "btrfs" }), accessMode },
      { accessType: mount({ volumeMountGroup: "staff" }), accessMode },
      undefined,
    ];
    for (const each of wrong) expect(() => accessOf(each), JSON.stringify(each)).to.throw(InvalidArgumentError);
  });

  it("is refused with a group or a mount option that reaches beyond the volume", () => {
    const accessMode = { mode: "SINGLE_NODE_WRITER" };
    const problem = (value: object) => problemOf({ accessType: mount(value), accessMode });
    expect(problem({ volumeMountGroup: "4294967294", mountFlags: ["noatime", "commit=5,errors=remount-ro"] })).to.equal(
      undefined,
    );
    for (const group of ["4294967295", "9999999999", "-1", "staff"])
      expect(problem({ volumeMountGroup: group }), group).to.include("is not a group ID");
    const options = ["loop=/dev/loop7", "loop", "helper=x", "journal_path=/dev/sda", "logdev=/dev/sda", "suid", "dev"];
    for (const option of [
      ...options,
      "bind",
      "remount",
      "errors=panic",
      "X-mount.mkdir",
      "noatime,loop",
      "data=a/b",
      "",
    ])
      expect(problem({ mountFlags: [option] }), option).to.match(/^mount option .* is not one/);
  });
});

describe("mutable parameters", () => {
  it("change the limits that they name, and keep the others", () => {
    const present = limitsFrom({ readIops: "100", burstSeconds: "10" }, undefined);
    expect(present).to.include({ readIops: 100, writeIops: 0, burstSeconds: 10 });
    expect(limitsFrom({ writeIops: "7" }, present)).to.include({ readIops: 100, writeIops: 7, burstSeconds: 10 });
  });

  it("that change nothing give no limits, and wrong ones are refused", () => {
    expect(limitsFrom({}, undefined)).to.equal(undefined);
    expect(limitsFrom({ readIops: "5" }, limitsFrom({ readIops: "5" }, undefined))).to.equal(undefined);
    const wrong: Record<string, string>[] = [{ size: "1" }, { readIops: "-1" }, { readIops: "1e9" }, { readIops: "" }];
    wrong.push({ readBytesPerSecond: "50" });
    for (const each of wrong) expect(() => limitsFrom(each, undefined)).to.throw(InvalidArgumentError);
  });
});

it("mountinfo is parsed with escaped blanks, and the last mount of a path is on top", () => {
  const mounts = parseMountInfo(
    [
      "42 27 7:0 / /mnt/a\\040b rw,relatime shared:7 - ext4 /dev/loop0 rw",
      "44 27 7:1 / /mnt/stopped rw shared:7 - ext4 /dev/loop1 ro,errors=remount-ro",
      "43 27 0:6 /loop1 /mnt/a\\040b ro - devtmpfs devtmpfs rw,size=1k",
      "",
    ].join("\n"),
  );
  expect(mounts).to.have.length(3);
  expect(mountedAt(mounts, "/mnt/stopped")).to.include({ isReadOnly: false, isFileSystemReadOnly: true });
  expect(mounts[0]).to.deep.equal({
    device: "7:0",
    root: "/",
    path: "/mnt/a b",
    isReadOnly: false,
    isFileSystemReadOnly: false,
    fsType: "ext4",
    source: "/dev/loop0",
  });
  expect(mountedAt(mounts, "/mnt/a b")).to.include({ root: "/loop1", isReadOnly: true });
  expect(mountedAt(mounts, "/mnt")).to.equal(undefined);
});

it("a message names the claim of a volume and the pod of a path, and nothing that is no name in Kubernetes", () => {
  const facts = (name: string) => ({ "csi.storage.k8s.io/pvc/namespace": "shop", "csi.storage.k8s.io/pvc/name": name });
  expect(shownVolume("v", facts("data"))).to.equal("volume v (claim shop/data)");
  for (const wrong of [facts("\u001b[2J"), facts(""), {}, undefined])
    expect(shownVolume("v", wrong)).to.equal("volume v");
  const uid = "0f3c1a52-0000-4000-8000-000000000001";
  expect(shownPath(`/var/lib/kubelet/pods/${uid}/volumes/x/mount`)).to.match(
    new RegExp(`of the pod with the UID ${uid}$`),
  );
  expect(shownPath("/mnt")).to.equal("/mnt");
});

describe("slow work of a driver", () => {
  const nowMs = Date.UTC(2026, 0, 1, 12);
  const call = (secondsAgo: number, volumeId = "csi-1") => ({
    ...{ method: "NodeStageVolume", volumeId },
    startedAtMs: nowMs - secondsAgo * 1_000,
  });

  it("is each call and program of 15 s or more, the oldest first, of which three are told", () => {
    const program = { program: "mount", pid: 7, startedAtMs: nowMs - 20_000 };
    expect(slowWarnings(nowMs, [call(14)], [])).to.deep.equal([]);
    expect(slowWarnings(nowMs, [call(15), call(14, "csi-2")], [program])).to.deep.equal([
      "NodeStageVolume of volume csi-1 runs since 2026-01-01T11:59:45Z: see its disk (diskmesh why disk csi-1); the call ends by itself once the disk answers",
      "program mount of the node runs since 2026-01-01T11:59:40Z: if its disk answers, end process 7; the call is then tried again",
    ]);
    const many = Array.from({ length: 5 }, (_, index) => call(20 + index, `csi-${index}`));
    expect(slowWarnings(nowMs, many, []).map((text) => /csi-\d/.exec(text)?.[0])).to.deep.equal([
      "csi-4",
      "csi-3",
      "csi-2",
    ]);
  });
});
