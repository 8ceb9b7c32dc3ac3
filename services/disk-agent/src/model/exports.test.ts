import { type DeviceId, type DiskId, type HostId, OutdatedError } from "@diskmesh/domain";
import { expect } from "chai";
import { decideExport, decideUnexport, exportDeviceOf } from "./exports.js";
import { type ExportExtent, type ExportSpec, emptyMemory } from "./memory.js";

const EMPTY = emptyMemory("host-1" as HostId);
const disk = (name: string) => name as DiskId;

const spec = (sessionNumber: number, diskId = "disk-1", sizeBytes = 4096): ExportSpec => ({
  diskId: disk(diskId),
  sessionNumber,
  blockSizeBytes: 4096,
  extents: [
    {
      deviceId: "d" as DeviceId,
      hostId: "host-2" as HostId,
      sizeBytes,
      blockAddress: "127.0.0.1:1",
      sessionKey: "key of the first leader",
    },
  ],
});

describe("decideExport and decideUnexport", () => {
  it("serves a higher session, keeps the same one, and refuses a lower one", () => {
    const memory = decideExport(decideExport(EMPTY, spec(3)), spec(5));
    expect(memory.exports.get(disk("disk-1"))?.spec?.sessionNumber).to.equal(5);
    expect(decideExport(memory, spec(5))).to.equal(memory);
    expect(() => decideExport(memory, spec(4))).to.throw(OutdatedError);
  });

  it("refuses the same session with other extents", () => {
    expect(() => decideExport(decideExport(EMPTY, spec(3)), spec(3, "disk-1", 8192))).to.throw(
      OutdatedError,
      "use a new session number",
    );
  });

  it("keeps the same session, and takes over another address and another leader's key", () => {
    const key = { sessionKey: "key of the next leader" };
    for (const change of [{ blockAddress: "127.0.0.1:2" }, key]) {
      const first = spec(3);
      const repeated = { ...first, extents: first.extents.map((extent) => ({ ...extent, ...change })) };
      const memory = decideExport(decideExport(EMPTY, first), repeated);
      const named = { diskId: disk("disk-1"), sessionNumber: 3, deviceId: "d" as DeviceId };
      expect(exportDeviceOf(memory, named)).to.include(change);
      expect(decideExport(memory, repeated)).to.equal(memory);
      expect(exportDeviceOf(memory, { ...named, sessionNumber: 2 })).to.equal(undefined);
    }
  });

  it("keeps addresses and keys in an order without them, and refuses the order where they are not known", () => {
    const reachless = { blockAddress: "", sessionKey: "" };
    const limited = { ...spec(3), revision: 1, extents: spec(3).extents.map((one) => ({ ...one, ...reachless })) };
    const memory = decideExport(decideExport(EMPTY, spec(3)), limited);
    expect(memory.exports.get(disk("disk-1"))?.spec).to.deep.equal({ ...spec(3), revision: 1 });
    expect(decideExport(memory, limited)).to.equal(memory);
    expect(() => decideExport(EMPTY, limited)).to.throw(OutdatedError, "no key of device d");
    const local = { ...limited, extents: limited.extents.map((one) => ({ ...one, hostId: EMPTY.hostId })) };
    expect(decideExport(EMPTY, local).exports.get(disk("disk-1"))?.spec).to.deep.equal(local);
  });

  describe("a later revision of the same session", () => {
    const limits = { readIops: 5, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };
    const [first] = spec(3).extents;
    const added = { ...spec(3).extents[0], deviceId: "e" as DeviceId, sessionNumber: 9 } as ExportExtent;
    const target = { ...(first as ExportExtent), deviceId: "t" as DeviceId, bytesPerSecond: 0, sessionNumber: 9 };
    const moving: ExportSpec = { ...spec(3), extents: [{ ...(first as ExportExtent), sizeBytes: 8_192, target }] };
    const cut = (...args: readonly (number | "t")[]): ExportExtent[] => {
      const { bytesPerSecond: _, ...other } = target;
      const whole = args.includes("t") ? other : (first as ExportExtent);
      let skipBytes = 0;
      return args.flatMap((sizeBytes) => {
        if (sizeBytes === "t") return [];
        const piece = { ...whole, sizeBytes, ...(skipBytes > 0 && { offsetBytes: skipBytes, skipBytes }) };
        skipBytes += sizeBytes;
        return piece;
      });
    };
    const rows: readonly [string, Partial<ExportSpec>, string][] = [
      ["has other limits", { limits }, "change"],
      ["has a further extent", { extents: [first as ExportExtent, added] }, "change"],
      ["has the same properties", {}, "change"],
      ["has its extent cut in two", { extents: cut(4_096, 4_096) }, "change"],
      ["has its extent cut in two, and is longer", { extents: cut(4_096, 8_192) }, "change"],
      ["has its extent cut in two, and a further one", { extents: [...cut(4_096, 4_096), added] }, "change"],
      ["has its target cut in two", { extents: cut(4_096, 4_096, "t") }, "change"],
      ["has half of its extent", { extents: cut(4_096) }, "refused"],
      ["has the parts of its extent in another order", { extents: cut(4_096, 4_096).reverse() }, "refused"],
      [
        "has its extent and its target cut in two, and half of each",
        { extents: [...cut(4_096), ...cut(4_096, 4_096, "t").slice(1)] },
        "refused",
      ],
      ["lacks an extent", { extents: [] }, "refused"],
      ["has a further extent in front", { extents: [added, first as ExportExtent] }, "refused"],
      ["has another block size", { blockSizeBytes: 512 }, "refused"],
      ["is read-only", { readOnly: true }, "refused"],
      ["has another form", { exportKind: "NBD" }, "refused"],
    ];
    for (const [what, change, effect] of rows)
      it(`${what} -> ${effect}`, () => {
        const memory = decideExport(EMPTY, what.includes("cut") || what.includes("half") ? moving : spec(3));
        const later: ExportSpec = { ...spec(3), ...change, revision: 1 };
        if (effect === "refused") return expect(() => decideExport(memory, later)).to.throw(OutdatedError);
        expect(decideExport(memory, later).exports.get(disk("disk-1"))?.spec).to.deep.equal(later);
      });

    it("a lower revision that arrives late -> nothing changes", () => {
      const former = { ...(first as ExportExtent), sessionKey: "key of a former leader" };
      const extents = [first as ExportExtent, added];
      const memory = decideExport(EMPTY, { ...spec(3), extents, limits, revision: 2 });
      for (const late of [spec(3), { ...spec(3), extents: [former], revision: 1 }])
        expect(decideExport(memory, late)).to.equal(memory);
    });
  });

  it("ends that and lower sessions for good on unexport", () => {
    const memory = decideUnexport(decideExport(EMPTY, spec(3)), disk("disk-1"), 4, 10);
    expect(memory.exports.get(disk("disk-1"))).to.deep.equal({ sessionNumber: 4 });
    for (const session of [3, 4]) expect(() => decideExport(memory, spec(session))).to.throw(OutdatedError);
    expect(decideExport(memory, spec(5)).exports.get(disk("disk-1"))).to.deep.equal({
      sessionNumber: 5,
      spec: spec(5),
    });
  });

  it("keeps the export on unexport of a lower session", () => {
    const memory = decideExport(EMPTY, spec(3));
    expect(decideUnexport(memory, disk("disk-1"), 2, 10)).to.equal(memory);
  });

  it("refuses an export that arrives after its unexport", () => {
    const memory = decideUnexport(EMPTY, disk("disk-1"), 3, 10);
    expect(() => decideExport(memory, spec(3))).to.throw(OutdatedError);
  });

  it("keeps forbidding ended exports that are no longer remembered one by one", () => {
    let memory = decideExport(EMPTY, spec(100, "served"));
    for (const session of [1, 2, 3, 4, 5]) memory = decideUnexport(memory, disk(`disk-${session}`), session, 2);
    expect([...memory.exports.keys()]).to.have.members(["served", "disk-4", "disk-5"]);
    expect(memory.exportFloor).to.equal(3);
    for (const session of [1, 2, 3])
      expect(() => decideExport(memory, spec(session, `disk-${session}`))).to.throw(OutdatedError);
    expect(decideExport(memory, spec(6, "disk-1")).exports.has(disk("disk-1"))).to.equal(true);
    expect(memory.exports.get(disk("served"))?.spec?.sessionNumber).to.equal(100);
  });
});
