import { MIB_BYTES } from "@diskmesh/domain";
import { expect } from "chai";
import { growthOf } from "./growth.js";

/** Measured growth between samples in KiB, of a director at each tenth of 100,000 requests. */
const DIFFERENCES_KIB = [-300, 1_000, 2_300, -400, 1_900, 1_600, 200, 800, 900, 1_700];
const HEAP_BYTES = 63 * MIB_BYTES;

const samplesOf = (bytesPerInput: number, resourcesPerInput = 0) =>
  DIFFERENCES_KIB.map((differenceKib, look) => {
    const inputs = (look + 1) * 10_000;
    const heapBytes = HEAP_BYTES + differenceKib * 1_024 + bytesPerInput * inputs;
    return { inputs, usage: { heapBytes, resources: 94 + ((look * 67) % 190) + resourcesPerInput * inputs } };
  });

describe("the growth of a process under fuzz", () => {
  it("is none when the samples vary", () => {
    expect(growthOf(samplesOf(0))).to.equal(undefined);
  });

  it("is found for a small map entry per input", () => {
    expect(growthOf(samplesOf(64))).to.match(/^\d\.\d MiB more of heap after 70000 inputs, \d\d bytes each$/);
    expect(growthOf(samplesOf(1_000))).to.match(/^\d\d\.\d MiB more/);
  });

  it("is found for a timer per hundred inputs", () => {
    expect(growthOf(samplesOf(0, 0.01))).to.match(/^\d+ more handles and timers after 70000 inputs$/);
  });

  it("is unknown with too few samples", () => {
    expect(growthOf(samplesOf(1_000).slice(0, 5))).to.equal(undefined);
  });
});
