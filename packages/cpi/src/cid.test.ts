import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { type CidKind, cidOfHost, hostOfCid, isCid, parseCid, parseVmOrHostCid } from "./cid.js";

const ALL: readonly CidKind[] = ["vm", "disk", "stemcell", "snapshot"];
const NO_FILE_NAMES: readonly CidKind[] = ["stemcell", "snapshot"];

describe("a CID", () => {
  const cases: readonly [value: string, of: readonly CidKind[]][] = [
    ["i-0abc", ALL],
    ["name:x;group:y", ALL],
    ["12345", ALL],
    ["a.b:c", ALL],
    ["..a", ALL],
    ["x".repeat(255), ALL],
    ["id/with/slashes", NO_FILE_NAMES],
    [".", NO_FILE_NAMES],
    ["..", NO_FILE_NAMES],
    ["", []],
    [" ", []],
    ["a b", []],
    ["a\0", []],
    ["a\n", []],
    ["ü", []],
    ["x".repeat(256), []],
  ];
  for (const [value, kinds] of cases)
    it(`${JSON.stringify(value.slice(0, 20))} -> ${kinds.length === 0 ? "none" : `of a ${kinds.join(", ")}`}`, () => {
      for (const kind of ALL) {
        expect(isCid(kind, value), kind).to.equal(kinds.includes(kind));
        if (kinds.includes(kind)) expect(parseCid(kind, value)).to.equal(value);
        else expect(() => parseCid(kind, value)).to.throw(InvalidArgumentError, `${kind}_cid`);
      }
    });

  it("of a host -> is none of a VM, and is parsed where a host may stand for a VM", () => {
    const cid = cidOfHost("h1");
    expect([cid, hostOfCid(cid), hostOfCid("vm-1"), isCid("vm", cid)]).to.deep.equal([
      "host/h1",
      "h1",
      undefined,
      false,
    ]);
    for (const each of [cid, "vm-1"]) expect(parseVmOrHostCid(each)).to.equal(each);
    for (const bad of ["", "host/", "host/a/b", "host/..", "host/a b", `host/${"x".repeat(65)}`, "other/h1"])
      expect(() => parseVmOrHostCid(bad), bad).to.throw(InvalidArgumentError, "vm_cid");
  });

  it("must be a string", () => {
    expect([1, null, undefined, ["a"], {}].filter((value) => isCid("disk", value))).to.deep.equal([]);
  });
});
