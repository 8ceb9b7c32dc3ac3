import { InvalidArgumentError, InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { stringifiedHint } from "./disk-hint.js";
import { diskIdOf, labelsOf, parseFleetDiskProperties, sizeBytesOf } from "./fleet-disks.js";

describe("a disk hint", () => {
  for (const [given, sent] of [
    ["/dev/sdb", "/dev/sdb"],
    [{ path: "/dev/sdb" }, { path: "/dev/sdb" }],
    [
      { lun: 3, id: "5", ok: true, host: null },
      { lun: "3", id: "5", ok: "true" },
    ],
    [{ iscsi_settings: { target: 7, username: "u" } }, { iscsi_settings: { target: "7", username: "u" } }],
    [{ path: ["a", 1] }, { path: '["a",1]' }],
    [5, "5"],
  ])
    it(`${JSON.stringify(given)} is sent as ${JSON.stringify(sent)}`, () => {
      expect(stringifiedHint(given, "d")).to.deep.equal(sent);
    });

  for (const given of [null, undefined, "", {}, { path: null }])
    it(`${JSON.stringify(given)} is refused`, () => {
      expect(() => stringifiedHint(given, "disk-7")).to.throw(InvalidStateError, "disk-7");
    });
});

describe("cloud properties of a fleet disk", () => {
  it("have defaults, and ignore properties of other CPIs", () => {
    const defaults = { pool: "", spreadRacks: false, limits: undefined, exportKind: "", onHostSilence: "", labels: [] };
    expect(parseFleetDiskProperties({})).to.deep.equal(defaults);
    expect(parseFleetDiskProperties({ type: "gp3" })).to.deep.equal(defaults);
    const words = { export: "device", on_host_silence: "fence" };
    const given = { pool: "ssd", spread_racks: true, ...words, limits: { write_iops: 5 } };
    const { limits, ...others } = parseFleetDiskProperties(given);
    const parsed = { pool: "ssd", spreadRacks: true, exportKind: "device", onHostSilence: "fence", labels: [] };
    expect(others).to.deep.equal(parsed);
    expect(limits).to.include({ readIops: 0, writeIops: 5 });
  });

  for (const wrong of [
    { pool: 5 },
    { pool: null },
    { pool: "a b" },
    { pool: "../x" },
    { spread_racks: "yes" },
    { spread_racks: 1 },
    { on_host_silence: "FENCE" },
    { on_host_silence: true },
    { limits: { read_bytes_per_second: 50 } },
  ])
    it(`are refused: ${JSON.stringify(wrong)}`, () => {
      expect(() => parseFleetDiskProperties(wrong)).to.throw(InvalidArgumentError, "cloud_properties");
    });
});

describe("a fleet disk", () => {
  it("has its size in bytes", () => {
    expect(sizeBytesOf(1)).to.equal(1_048_576);
    expect(sizeBytesOf(2 ** 32)).to.equal(2 ** 52);
  });

  for (const size of [0, -1, 1.5, Number.NaN, 2 ** 33, Number.MAX_SAFE_INTEGER])
    it(`is refused with ${size} MiB`, () => {
      expect(() => sizeBytesOf(size)).to.throw(InvalidArgumentError, "size_mib");
    });

  it("has a valid id made of its token", () => {
    expect(diskIdOf("a1")).to.equal("disk-a1");
    for (const token of ["a/b", "a.b", "x".repeat(60), "\0"])
      expect(() => diskIdOf(token)).to.throw(InvalidArgumentError);
  });

  it("has metadata as labels, sorted by name", () => {
    expect(labelsOf({ b: "text", a: 1, c: { d: [true] }, e: null })).to.deep.equal([
      { name: "a", value: "1" },
      { name: "b", value: "text" },
      { name: "c", value: '{"d":[true]}' },
      { name: "e", value: "null" },
    ]);
  });
});
