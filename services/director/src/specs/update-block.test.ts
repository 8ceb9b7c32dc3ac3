import { expect } from "chai";
import { partsOf, unitsOf, wavesOf } from "../deployments/waves.js";
import { newInstance } from "../instances/instance.js";
import { canariesOf, maxInFlightOf, updateBlockOf, watchPausesMs } from "./update-block.js";

describe("the update block", () => {
  const COUNTS: [string, number, number, number][] = [
    ["1", 200, 1, 1],
    ["0", 3, 0, 1],
    ["5", 3, 3, 5],
    ["50%", 3, 1, 1],
    ["20%", 4, 0, 1],
    ["100%", 7, 7, 7],
    ["300%", 7, 7, 7],
    ["33%", 10, 3, 3],
    ["1", 0, 0, 1],
  ];
  for (const [count, size, canaries, atOnce] of COUNTS)
    it(`${count} of ${size} -> ${canaries} canaries, ${atOnce} in flight`, () => {
      expect(canariesOf({ canaries: count }, size)).to.equal(canaries);
      expect(maxInFlightOf({ maxInFlight: count }, size)).to.equal(atOnce);
    });

  const WATCHES: [unknown, number[]][] = [
    [5_000, [5_000]],
    ["1000-1000", [1_000]],
    ["1000-3500", [1_000, 1_000, 1_000]],
    ["0-90000", [0, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000]],
    ["0-300000", [0, ...Array.from({ length: 20 }, () => 15_000)]],
  ];
  for (const [given, pauses] of WATCHES)
    it(`watch time ${given} ms -> polled after ${pauses}`, () => {
      expect(watchPausesMs(updateBlockOf({ update_watch_time: given }, null).updateWatchTime)).to.deep.equal(pauses);
    });

  it("the group's block -> overrides the deployment's, key by key; neither -> one instance at a time", () => {
    const deployment = { canaries: 2, max_in_flight: "10%", serial: false, canary_watch_time: "1-2" };
    const group = { canaries: "30%", update_watch_time: 7 };
    expect(updateBlockOf(deployment, group)).to.deep.equal({
      canaries: "30%",
      maxInFlight: "10%",
      canaryWatchTime: { minMs: 1, maxMs: 2 },
      updateWatchTime: { minMs: 7, maxMs: 7 },
      serial: false,
    });
    expect(updateBlockOf(undefined, null)).to.include({ canaries: "1", maxInFlight: "1", serial: true });
  });

  it("invalid values stored by an earlier release -> count as absent", () => {
    const odd = { canaries: "banana", max_in_flight: -1, update_watch_time: "9-1", serial: "yes" };
    expect(updateBlockOf(odd, ["x"])).to.deep.equal(updateBlockOf(undefined, undefined));
  });
});

describe("the order of an update", () => {
  const members = (text: string) => text.split(" ").map((name) => ({ name, az: name.slice(0, 2) }));
  const WAVES: [string, string, string, string, string[]][] = [
    ["canaries, then the others", "z1a z1b z1c", "1", "2", ["z1a (canary, 2)", "z1b z1c (2)"]],
    ["no canaries", "z1a z1b", "0", "2", ["z1a z1b (2)"]],
    ["more canaries than there are", "z1a z1b", "5", "1", ["z1a z1b (canary, 1)"]],
    ["azs one after the other", "z2a z1a z2b z1b", "1", "9", ["z2a (canary, 9)", "z2b (9)", "z1a z1b (9)"]],
    [
      "shares of each az",
      "z1a z1b z2a z2b z2c z2d",
      "50%",
      "50%",
      ["z1a (canary, 1)", "z1b (1)", "z2a z2b z2c z2d (2)"],
    ],
  ];
  for (const [cause, all, canaries, maxInFlight, effect] of WAVES)
    it(`${cause} -> ${effect.join(", then ")}`, () => {
      const waves = wavesOf({ canaries, maxInFlight }, members(all));
      const texts = waves.map(
        (wave) =>
          `${wave.members.map(({ name }) => name).join(" ")} (${wave.isCanary ? "canary, " : ""}${wave.atOnce})`,
      );
      expect(texts).to.deep.equal(effect);
    });

  it("non-serial groups -> together with adjacent non-serial groups", () => {
    const groups = ["a", "B", "C", "d", "e", "F"].map((name) => ({
      name,
      update: { serial: name === name.toLowerCase() },
    }));
    const parts = partsOf(groups).map((part) => part.map(({ name }) => name).join(""));
    expect(parts).to.deep.equal(["a", "BC", "d", "e", "F"]);
  });

  it("addresses in a chain and in a ring -> together, with the holders that were not selected", () => {
    const all = [..."abcdefg"].map((instanceId, index) =>
      newInstance({ instanceId, deployment: "web", group: "db", index, az: "" }),
    );
    const holders: Record<string, string> = { a: "d", d: "g", b: "c", c: "b" };
    const holderOf = ({ instanceId }: { instanceId: string }) =>
      all.find((each) => each.instanceId === holders[instanceId]);
    const units = unitsOf(all.slice(0, 6), holderOf);
    expect(units.map((unit) => unit.map(({ instanceId }) => instanceId).join(""))).to.deep.equal([
      "adg",
      "bc",
      "e",
      "f",
    ]);
  });
});
