import { expect } from "chai";
import { aDevice, aDisk, deviceId, diskId } from "../../testing/fleet-fixture.js";
import type { Copy, Part } from "../store/disk-parts.js";
import type { Device } from "../store/schema.js";
import { recordOf } from "./run-records.js";
import { coveredRuns, recordedRuns } from "./session-plan.js";

const KIB = 1_024;
const MIB = KIB * KIB;
const a = diskId("a");

const copy = (device: string, first: number, state: Copy["state"] = "COUNTS", skipBytes?: number): Copy => ({
  deviceId: deviceId(device),
  first,
  state,
  ...(skipBytes !== undefined && { skipBytes }),
});
const drive = (id: string, ...runs: Device["runs"]): Device => ({
  ...aDevice(id, { sizeBytes: 16 * MIB + 64 * KIB, sliceBytes: MIB }),
  runs,
});
const disk = (...parts: Part[]) => aDisk("a", [], { parts });
const session = { layout: 3, clean: false };

describe("the record of a run", () => {
  it("has the disk, the place of its parts behind the record, and what the order says", () => {
    const d1 = drive("d1", { first: 2, count: 3, diskId: a });
    const of = disk({ sizeBytes: MIB, copies: [copy("d2", 0)] }, { sizeBytes: 2 * MIB, copies: [copy("d1", 2)] });
    expect(recordOf(of, d1, { first: 2, count: 3, diskId: a }, session)).to.deep.equal({
      ...{ diskSizeBytes: of.sizeBytes, blockSizeBytes: of.blockSizeBytes, pool: of.requested.pool },
      ...{ partCount: 2, parts: [{ index: 1, offsetBytes: 64 * KIB, sizeBytes: 2 * MIB }], layout: 3, clean: false },
    });
  });

  it("of large slices leaves 1 MiB", () => {
    const d1 = { ...drive("d1", { first: 0, count: 1, diskId: a }), sliceBytes: 64 * MIB };
    const of = disk({ sizeBytes: MIB, copies: [copy("d1", 0)] });
    expect(recordOf(of, d1, { first: 0, count: 1, diskId: a }, session).parts).to.deep.equal([
      { index: 0, offsetBytes: MIB, sizeBytes: MIB },
    ]);
  });

  it("has all parts into which the run's was split, but none that has left or is being copied", () => {
    const run = { first: 0, count: 8, diskId: a };
    const d1 = drive("d1", run);
    const of = disk(
      { sizeBytes: MIB, copies: [copy("d2", 0), copy("d1", 0, "LEAVING")] },
      { sizeBytes: MIB, copies: [copy("d1", 0, "COUNTS", MIB), copy("d2", 3, "COPYING")] },
      { sizeBytes: 2 * MIB, copies: [copy("d1", 0, "COUNTS", 2 * MIB)] },
    );
    expect(recordOf(of, d1, run, session).parts).to.deep.equal([
      { index: 1, offsetBytes: MIB + 64 * KIB, sizeBytes: MIB },
      { index: 2, offsetBytes: 2 * MIB + 64 * KIB, sizeBytes: 2 * MIB },
    ]);
    const d2 = drive("d2", { first: 0, count: 2, diskId: a }, { first: 3, count: 2, diskId: a });
    const { runs } = coveredRuns([d2], of, { recordOf: (device, each) => recordOf(of, device, each, session) });
    expect(runs.map(({ record }) => record?.parts.map(({ index }) => index))).to.deep.equal([[0], []]);
  });

  it("is in no order for a whole device, nor in a fence, and is clean once the host has ended its export", () => {
    const of = disk({ sizeBytes: MIB, copies: [copy("d1", 0)] });
    const d1 = drive("d1", { first: 0, count: 2, diskId: a });
    const whole = { ...d1, runs: [{ first: 0, diskId: a }] };
    const publication = (state: "PUBLISHED" | "UNPUBLISHING") =>
      ({ state, sessionNumber: 9, hostId: "h1", exportPath: "", attempts: 0, lastError: "", revision: 4 }) as never;
    const told = (device: Device, state: "PUBLISHED" | "UNPUBLISHING", isClean?: true) =>
      recordedRuns({ disk: of, publication: publication(state), ...(isClean && { isClean }) }, [device]).runs.map(
        ({ record }) => record && [record.layout, record.clean],
      );
    expect(told(d1, "PUBLISHED")).to.deep.equal([[4, false]]);
    expect(told(d1, "UNPUBLISHING")).to.deep.equal([undefined]);
    expect(told(d1, "UNPUBLISHING", true)).to.deep.equal([[4, true]]);
    expect(told(whole, "PUBLISHED")).to.deep.equal([]);
  });
});
