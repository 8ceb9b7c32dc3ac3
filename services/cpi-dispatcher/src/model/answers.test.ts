import { InvalidCpiResponseError, NotSupportedError } from "@diskmesh/cpi";
import { expect } from "chai";
import fc from "fast-check";
import { parseAnswer, resultOf } from "./answers.js";

const ok = { result: null, error: null, log: "" };
const failed = { type: "T", message: "M", ok_to_retry: true };

/** Any JSON, and some values that methods return. */
const any = fc.oneof(fc.jsonValue(), fc.constantFrom("vm-1", ["vm-1", {}], ["vm-1", "d"], "T", 2, true));

describe("an answer of a CPI", () => {
  it("is a result, an error and a log", () => {
    expect(parseAnswer(JSON.stringify({ ...ok, result: "vm-1", log: "l", more: 1 }))).to.deep.equal({
      result: "vm-1",
      error: undefined,
      log: "l",
    });
    expect(parseAnswer(JSON.stringify({ ...ok, error: failed })).error).to.deep.equal({
      type: "T",
      message: "M",
      okToRetry: true,
    });
  });

  for (const [text, says] of [
    ["", "not JSON"],
    ["no JSON", "not JSON"],
    ['{"result":null,"error":null,"log":""} trailing', "not JSON"],
    [
      JSON.stringify(ok).replace("null", `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`),
      "nested more than 32 deep",
    ],
    ["[]", "not a JSON object"],
    ["null", "not a JSON object"],
    ['"x"', "not a JSON object"],
    [JSON.stringify({ error: null, log: "" }), "no 'result'"],
    [JSON.stringify({ result: null, log: "" }), "no 'error'"],
    [JSON.stringify({ result: null, error: null }), "no 'log'"],
    [JSON.stringify({ ...ok, log: null }), "'log'"],
    [JSON.stringify({ ...ok, error: "boom" }), "'error'"],
    [JSON.stringify({ ...ok, error: { ...failed, type: 1 } }), "'type'"],
    [JSON.stringify({ ...ok, error: { ...failed, message: null } }), "'message'"],
    [JSON.stringify({ ...ok, error: { type: "T", message: "M" } }), "'ok_to_retry'"],
  ] as const)
    it(`is invalid: ${text.slice(0, 60)}`, () => {
      expect(() => parseAnswer(text))
        .to.throw(InvalidCpiResponseError, /^Invalid CPI response - /)
        .with.property("message")
        .that.includes(says);
    });

  it("is not quoted, because it may contain secrets", () => {
    expect(() => parseAnswer("s3cret")).to.throw(InvalidCpiResponseError, /^((?!s3cret).)*$/);
  });

  it("of any keys and values, or any text, is read or invalid", () => {
    const error = fc.oneof(fc.record({ type: any, message: any, ok_to_retry: any }), any);
    const answer = fc.record({ result: any, error, log: fc.oneof(fc.string(), any) }, { requiredKeys: [] });
    const text = fc.oneof(
      answer.map((value) => JSON.stringify(value)),
      fc.json(),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(text, (printed) => readOrInvalid(() => parseAnswer(printed))),
      { numRuns: 200 },
    );
  });

  it("that is invalid leaves the outcome unknown", () => {
    expect(() => parseAnswer(""))
      .to.throw()
      .with.property("outcome", "unknown");
  });
});

describe("a result", () => {
  it("of info may lack fields that old CPIs do not know", () => {
    const needsVmSpec = true;
    expect(resultOf.info({})).to.deep.equal({ apiVersion: undefined, stemcellFormats: [], needsVmSpec });
    expect(resultOf.info({ needs_vm_spec: false })).to.include({ needsVmSpec: false });
    expect(resultOf.info({ api_version: 2, stemcell_formats: ["aws-light"] })).to.deep.equal({
      apiVersion: 2,
      stemcellFormats: ["aws-light"],
      needsVmSpec,
    });
  });

  it("of create_vm is a CID, or a CID and networks, depending on the version", () => {
    expect(resultOf.createVm("vm-1", "cid")).to.deep.equal({ vmCid: "vm-1", networks: undefined });
    expect(resultOf.createVm(["vm-1", { a: {} }], "cid_and_networks")).to.deep.equal({
      vmCid: "vm-1",
      networks: { a: {} },
    });
    expect(resultOf.createVm(["vm-1"], "cid_and_networks").networks).to.equal(undefined);
    for (const result of ["vm-1", ["vm-1", {}]]) expect(resultOf.createVm(result, "either").vmCid).to.equal("vm-1");
  });

  it("of snapshot_disk without a CID says that the CPI takes no snapshots", () => {
    expect(resultOf.snapshot("s-1")).to.equal("s-1");
    for (const none of ["", null, undefined])
      expect(() => resultOf.snapshot(none)).to.throw(NotSupportedError, "takes no snapshots");
  });

  it("of update_disk keeps the id, or contains a new id", () => {
    expect(resultOf.updatedDisk(null, "d1")).to.equal("d1");
    expect(resultOf.updatedDisk("d2", "d1")).to.equal("d2");
  });

  const wrong: Record<string, () => unknown> = {
    "info, null": () => resultOf.info(null),
    "info, a string": () => resultOf.info("2"),
    "info, api_version as a string": () => resultOf.info({ api_version: "2" }),
    "info, api_version 0": () => resultOf.info({ api_version: 0 }),
    "info, api_version 1.5": () => resultOf.info({ api_version: 1.5 }),
    "info, api_version 2^64": () => resultOf.info({ api_version: 2 ** 64 }),
    "info, formats of numbers": () => resultOf.info({ stemcell_formats: [1] }),
    "create_vm v1, a list": () => resultOf.createVm(["vm-1", {}], "cid"),
    "create_vm v2, a string": () => resultOf.createVm("vm-1", "cid_and_networks"),
    "create_vm v2, an empty list": () => resultOf.createVm([], "cid_and_networks"),
    "create_vm, null": () => resultOf.createVm(null, "either"),
    "create_disk, null": () => resultOf.cid("create_disk", null),
    "create_disk, empty": () => resultOf.cid("create_disk", ""),
    "create_disk, a number": () => resultOf.cid("create_disk", 5),
    "create_disk, control characters": () => resultOf.cid("create_disk", "a\nb"),
    "create_disk, endless": () => resultOf.cid("create_disk", "x".repeat(256)),
    "create_disk, a path": () => resultOf.cid("create_disk", "a/b"),
    "create_vm, a path": () => resultOf.createVm("../vm", "either"),
    "has_vm, null": () => resultOf.flag("has_vm", null),
    "has_vm, a string": () => resultOf.flag("has_vm", "true"),
    "get_disks, null": () => resultOf.cids("get_disks", null),
    "get_disks, of objects": () => resultOf.cids("get_disks", [{}]),
    "calculate_vm_cloud_properties, a list": () => resultOf.object("calculate_vm_cloud_properties", []),
  };
  for (const [what, parse] of Object.entries(wrong))
    it(`is invalid: ${what}`, () => {
      expect(parse).to.throw(InvalidCpiResponseError, what.split(",")[0]?.split(" ")[0]);
    });

  const parsers: Record<string, (result: unknown) => unknown> = {
    info: (result) => resultOf.info(result),
    "info with any keys": (value) => resultOf.info({ api_version: value, stemcell_formats: value }),
    create_vm: (result) => resultOf.createVm(result, "either"),
    create_disk: (result) => resultOf.cid("create_disk", result),
    has_vm: (result) => resultOf.flag("has_vm", result),
    get_disks: (result) => resultOf.cids("get_disks", result),
    update_disk: (result) => resultOf.updatedDisk(result, "d1"),
    calculate_vm_cloud_properties: (result) => resultOf.object("calculate_vm_cloud_properties", result),
  };
  for (const [method, parse] of Object.entries(parsers))
    it(`of any kind to ${method} is read or invalid`, () => {
      fc.assert(
        fc.property(any, (result) => readOrInvalid(() => parse(result))),
        { numRuns: 100 },
      );
    });
});

function readOrInvalid(read: () => unknown): void {
  try {
    read();
  } catch (error) {
    expect(error).to.be.instanceOf(InvalidCpiResponseError);
  }
}
