import { expect } from "chai";
import { type Json, sameJson } from "../store/json.js";
import { decodeEvent, encodeEvent, MAX_MESSAGE_LENGTH } from "../tasks/task-event.js";
import { azNamed, type CloudConfig, diskTypeNamed, findDuplicate, mergeCloudConfigs } from "./cloud-config.js";

describe("equality of JSON", () => {
  const EQUAL: [Json, Json, boolean][] = [
    [{ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, true],
    [{}, {}, true],
    [[], {}, false],
    [{ a: 1 }, { a: 1, b: 2 }, false],
    [{ a: 1, b: 2 }, { a: 1 }, false],
    [{ a: null }, { b: null }, false],
    [[1, 2], [2, 1], false],
    ["1", 1, false],
    [null, {}, false],
  ];
  for (const [a, b, equal] of EQUAL) {
    it(`${JSON.stringify(a)} and ${JSON.stringify(b)} -> ${equal ? "equal" : "different"}`, () => {
      expect(sameJson(a, b)).to.equal(equal);
    });
  }
});

describe("merged cloud configs", () => {
  const az = (name: string) => ({ name, cloudProperties: {}, cpi: "" });
  const type = (name: string) => ({ name, sizeMib: 1, cloudProperties: {} });
  const config = (some: Partial<CloudConfig>): CloudConfig => ({
    azs: [],
    vmTypes: [],
    vmExtensions: [],
    diskTypes: [],
    networks: [],
    ...some,
  });
  const merged = mergeCloudConfigs([config({ azs: [az("z1")], diskTypes: [type("a")] }), config({ azs: [az("z2")] })]);

  it("several -> their lists are concatenated", () => {
    expect(azNamed(merged, "z2").name).to.equal("z2");
    expect(diskTypeNamed(merged, "a").name).to.equal("a");
    expect(findDuplicate(merged)).to.equal(undefined);
  });
  it("a duplicate name -> found", () => {
    expect(findDuplicate(mergeCloudConfigs([merged, config({ azs: [az("z1")] })]))).to.equal("az `z1`");
    expect(findDuplicate(mergeCloudConfigs([merged, config({ diskTypes: [type("a")] })]))).to.equal("disk_type `a`");
  });
  it("an unknown name -> an error that lists the known ones", () => {
    expect(() => azNamed(merged, "z9")).to.throw("AZ `z9` is in no cloud config: the AZs are `z1`, `z2`");
    expect(() => diskTypeNamed(mergeCloudConfigs([]), "a")).to.throw(
      "could not find disk type `a`: there are no disk_types",
    );
  });
});

describe("events of tasks", () => {
  const step = { tags: ["web"], total: 2, index: 1 };
  const event = { timeMs: 1_500, stage: "Creating disk", task: "d", state: "failed", message: "x\n", ...step } as const;

  it("encoded and decoded -> equal; a long message is truncated", () => {
    const others = [
      { ...event, state: "started", message: "" },
      { ...event, state: "finished", message: "as asked for" },
      { ...event, stage: "Warning", task: "", state: "finished", tags: [], total: 0, index: 0 },
      { ...event, stage: "Error", task: "", tags: [], total: 0, index: 0 },
    ] as const;
    for (const each of [event, ...others]) expect(decodeEvent(encodeEvent(each))).to.deep.equal(each);
    const long = decodeEvent(encodeEvent({ ...event, message: "x".repeat(10_000) }));
    expect(long.message).to.have.lengthOf(MAX_MESSAGE_LENGTH + 3);
  });

  it("are BOSH's lines: whole seconds, progress, and the error of a failure", () => {
    const said = (changes: object) => JSON.parse(encodeEvent({ ...event, ...changes }, 10_001));
    expect(said({})).to.deep.equal({
      ...{ time: 1, stage: "Creating disk", tags: ["web"], total: 2, task: "d", index: 1 },
      ...{ state: "failed", progress: 100, data: { error: "x\n" }, time_ms: 1_500 },
    });
    expect(said({ state: "started", message: "" }))
      .to.include({ progress: 0 })
      .and.to.deep.include({ data: {} });
    const [time, time_ms, message] = [1, 1_500, "x\n"];
    expect(said({ stage: "Warning" })).to.deep.equal({ time, type: "warning", message, time_ms });
    expect(said({ stage: "Error" })).to.deep.equal({ time, error: { code: 10_001, message }, time_ms });
  });
});
