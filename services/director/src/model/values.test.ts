import { expect } from "chai";
import { azNamed, type CloudConfig, diskTypeNamed, findDuplicate, mergeCloudConfigs } from "./cloud-config.js";
import { type Json, sameJson } from "./json.js";
import { decodeEvent, encodeEvent, MAX_MESSAGE_LENGTH } from "./task-event.js";

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

describe("cloud configs together", () => {
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

  it("several -> their lists put together", () => {
    expect(azNamed(merged, "z2").name).to.equal("z2");
    expect(diskTypeNamed(merged, "a").name).to.equal("a");
    expect(findDuplicate(merged)).to.equal(undefined);
  });
  it("a name twice -> found", () => {
    expect(findDuplicate(mergeCloudConfigs([merged, config({ azs: [az("z1")] })]))).to.equal("az `z1`");
    expect(findDuplicate(mergeCloudConfigs([merged, config({ diskTypes: [type("a")] })]))).to.equal("disk_type `a`");
  });
  it("an unknown name -> an error that lists the known ones", () => {
    expect(() => azNamed(merged, "z9")).to.throw("AZ `z9` is in no cloud config: the AZs are `z1`, `z2`");
    expect(() => diskTypeNamed(mergeCloudConfigs([]), "a")).to.throw(
      "could not find disk pool by name `a`: there are no disk_types",
    );
  });
});

describe("events of tasks", () => {
  it("written and read -> the same; a long message cut", () => {
    const event = { timeMs: 1, stage: "Creating disk", task: "d", state: "failed", message: "x\n" } as const;
    expect(decodeEvent(encodeEvent(event))).to.deep.equal(event);
    const long = decodeEvent(encodeEvent({ ...event, message: "x".repeat(10_000) }));
    expect(long.message).to.have.lengthOf(MAX_MESSAGE_LENGTH + 3);
  });
});
