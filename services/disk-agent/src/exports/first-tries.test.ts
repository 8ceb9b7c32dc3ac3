import { expect } from "chai";
import { specOf } from "../testing/engine-scene.js";
import { FirstTries } from "./first-tries.js";

describe("tries to serve a session", () => {
  const moving = (sessionNumber: number) => {
    const [extent] = specOf("disk-1", sessionNumber, ["a"]).extents;
    if (extent === undefined) throw new Error("the spec lacks an extent");
    const target = { ...extent, bytesPerSecond: 0, copiedBytes: 4_096 };
    return { ...specOf("disk-1", sessionNumber, ["a"]), extents: [{ ...extent, target }] };
  };

  it("have a move go on in the first one of each session alone", () => {
    const tries = new FirstTries();
    const copied = [1, 1, 2, 2].map((number) => tries.of(moving(number)).extents[0]?.target?.copiedBytes);
    expect(copied).to.deep.equal([4_096, undefined, 4_096, undefined]);
  });
});
