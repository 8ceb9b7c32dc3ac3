import type { DeviceId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { ageOf, hardwareErrors, NOTED_EVERY_MS, withHardwareError, withoutHardwareErrors } from "./hardware-errors.js";
import { type AgentMemory, emptyMemory, withDevice } from "./memory.js";

const DEVICE = "d1" as DeviceId;
const EMPTY = emptyMemory("host-1" as HostId);
const NOTED_MS = 100_000;

const kept = (memory: AgentMemory) => hardwareErrors(memory).get(DEVICE);
const failed = (message: string, atMs: number, memory = EMPTY) => withHardwareError(memory, DEVICE, message, atMs);

describe("remembered hardware errors", () => {
  const later: readonly (readonly [what: string, atMs: number, notedAtMs: number])[] = [
    ["at once", NOTED_MS, NOTED_MS],
    ["within the time in which none is noted", NOTED_MS + NOTED_EVERY_MS - 1, NOTED_MS],
    ["after that", NOTED_MS + NOTED_EVERY_MS, NOTED_MS + NOTED_EVERY_MS],
    ["by a clock that was set back", NOTED_MS - 1, NOTED_MS - 1],
    ["by a clock that stands before 1970", -5, 0],
    ["at a fraction of a millisecond", NOTED_MS * 2 + 0.7, NOTED_MS * 2],
  ];
  for (const [what, atMs, notedAtMs] of later)
    it(`keep the first message after another one, ${what}, noted at ${notedAtMs}`, () => {
      const memory = failed("first", NOTED_MS);
      const next = failed("second", atMs, memory);
      expect(kept(next)).to.deep.equal({ message: "first", notedAtMs });
      expect(next === memory).to.equal(notedAtMs === NOTED_MS);
    });

  it("without a time, from the previous release's cache, get the time of the next one", () => {
    const memory = withDevice(EMPTY, DEVICE, { hardwareError: "first" });
    expect(kept(memory)).to.deep.equal({ message: "first", notedAtMs: undefined });
    expect(kept(failed("second", NOTED_MS, memory))).to.deep.equal({ message: "first", notedAtMs: NOTED_MS });
  });

  it("are dropped with their time once reported, except those that differ from the report", () => {
    const memory = failed("first", NOTED_MS);
    expect(kept(withoutHardwareErrors(memory, new Map([[DEVICE, { message: "other" }]])))).to.include({
      message: "first",
    });
    const forgotten = withoutHardwareErrors(memory, hardwareErrors(memory));
    expect(kept(forgotten)).to.equal(undefined);
    expect(kept(failed("second", NOTED_MS + 1, forgotten))).to.include({ notedAtMs: NOTED_MS + 1 });
  });

  const ages: readonly (readonly [what: string, notedAtMs: number | undefined, ageMs: number])[] = [
    ["noted just now", NOTED_MS, 0],
    ["within the time in which later ones are not noted", NOTED_MS - NOTED_EVERY_MS, 0],
    ["before that: so long ago that no later one can be newer", NOTED_MS - NOTED_EVERY_MS - 7, 7],
    ["in the future, by a clock that was set back", NOTED_MS + 5_000, 0],
    ["by nobody knows when", undefined, 0],
  ];
  for (const [what, notedAtMs, ageMs] of ages)
    it(`of an earlier run, ${what}, are ${ageMs} ms old`, () => {
      expect(ageOf({ message: "EIO", notedAtMs }, NOTED_MS + 0.5)).to.equal(ageMs);
    });
});
