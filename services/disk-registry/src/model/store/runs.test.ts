import { expect } from "chai";
import { aDevice, diskId } from "../../testing/fleet-fixture.js";
import {
  diskOn,
  disksOn,
  eraseSessionOf,
  holds,
  isDirty,
  type Run,
  withDisk,
  withErased,
  withEraseSession,
  withRun,
  withRunOfVersion1,
} from "./runs.js";
import { spacesOf } from "./slices.js";

const X = diskId("x");
const ofX: Run = { first: 0, diskId: X };
const dirty: Run = { first: 0, diskId: "" };
const erasing: Run = { ...dirty, eraseSessionNumber: 7 };

describe("the run of a device that 0.1.0 wrote", () => {
  const rows: readonly [string, object, readonly Run[]][] = [
    ["free", { diskId: "", dirty: false, eraseSessionNumber: 0 }, []],
    ["with a disk", { diskId: X, dirty: false, eraseSessionNumber: 0 }, [ofX]],
    ["dirty", { diskId: "", dirty: true, eraseSessionNumber: 0 }, [dirty]],
    ["being erased", { diskId: "", dirty: true, eraseSessionNumber: 7 }, [erasing]],
  ];
  for (const [what, fields, runs] of rows)
    it(`${what} -> ${JSON.stringify(runs)}`, () => {
      expect(withRunOfVersion1({ deviceId: "d1", ...fields })).to.deep.equal({ deviceId: "d1", runs });
    });
});

describe("the runs of a device", () => {
  const device = (runs: readonly Run[]) => ({ ...aDevice("d1"), runs });

  const seen: readonly [Run | undefined, string, boolean, boolean, number][] = [
    [undefined, "", false, true, 0],
    [ofX, "x", false, false, 0],
    [dirty, "", true, false, 0],
    [erasing, "", true, false, 7],
  ];
  for (const [run, disk, wantsErase, isFree, session] of seen)
    it(`${JSON.stringify(run)} -> ${disk || (wantsErase ? "dirty" : "free")}`, () => {
      const found = device(run === undefined ? [] : [run]);
      expect([diskOn(found), isDirty(found), spacesOf(found).length]).to.deep.equal([disk, wantsErase, isFree ? 1 : 0]);
      expect([eraseSessionOf(found), holds(found, X)]).to.deep.equal([session, disk === "x"]);
    });

  const changes: readonly [string, readonly Run[], readonly Run[]][] = [
    ["a free device is given to a disk", withDisk(device([]), X).runs, [ofX]],
    ["the disk leaves it", withRun(device([ofX]), dirty).runs, [dirty]],
    ["its erase gets a session", withEraseSession(device([dirty]), 7).runs, [erasing]],
    ["the erase loses its session", withEraseSession(device([erasing]), 0).runs, [dirty]],
    ["a device with a disk gets no erase", withEraseSession(device([ofX]), 7).runs, [ofX]],
    ["the erase ends", withErased(device([erasing]), 7).runs, []],
    ["an earlier erase ends", withErased(device([erasing]), 6).runs, [erasing]],
  ];
  for (const [what, runs, expected] of changes) it(what, () => expect(runs).to.deep.equal(expected));

  it("the disks on devices are named once, in order", () => {
    const y = { first: 0, diskId: diskId("y") };
    expect(disksOn([device([y]), device([ofX]), device([dirty]), device([y])])).to.deep.equal(["x", "y"]);
  });
});
