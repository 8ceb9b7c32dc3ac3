import { expect } from "chai";
import { aDevice, aDisk, aHost, deviceId, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { type CopiedTarget, noteEnded, spendMarks } from "./copy-marks.js";
import { fenceHost } from "./fences.js";
import { migrateDisk } from "./move-disk.js";
import { chooseTarget } from "./move-target.js";
import { beginTarget, beginTry, type Copying, failTry, noteCopied, planMove } from "./moves.js";
import {
  completePublish,
  completeUnpublish,
  markAsked,
  renewSession,
  requestPublish,
  requestUnpublish,
} from "./publications.js";
import { planSession } from "./session-plan.js";

const x = diskId("x");
const h2 = hostId("h2");
const choice = { draw: 0, nowMs: 9, whySuspected: () => undefined, maxParts: 8 };

/** Disk x moves from d1 of h1 to d2 of h2. */
function moving(): TestFleet {
  const fleet = new TestFleet({
    hosts: [aHost("h1"), aHost("h2")],
    devices: [aDevice("d1", { diskId: x }), aDevice("d2", { hostId: h2 })],
    disks: [aDisk("x", ["d1"])],
  });
  fleet.transact((tx) => migrateDisk(tx, x, "", 9));
  const step = planMove(fleet.tables, x);
  if (step.kind !== "choose") throw new Error(step.kind);
  const chosen = chooseTarget(fleet.tables, step, choice);
  if (!("spaces" in chosen)) throw new Error(chosen.why);
  fleet.transact((tx) => beginTarget(tx, step, chosen.spaces));
  fleet.transact((tx) => beginTry(tx, x));
  return fleet;
}

const target = (fleet: TestFleet) => {
  const found = fleet.disk("x").parts[0]?.copies.find(({ state }) => state === "COPYING");
  if (found === undefined) throw new Error("the disk has no target");
  return found;
};
const publicationOf = (fleet: TestFleet) => {
  const { publication } = fleet.disk("x");
  if (publication === undefined) throw new Error("the disk is not published");
  return publication;
};
const idle = (fleet: TestFleet): Copying => {
  const step = planMove(fleet.tables, x);
  if (step.kind !== "copy") throw new Error(step.kind);
  return step;
};
const mark = (fleet: TestFleet, copiedBytes = 4_096): number => {
  const seen = idle(fleet);
  fleet.transact((tx) => noteCopied(tx, seen, copiedBytes));
  return seen.sessionNumber;
};
const publish = (fleet: TestFleet) => {
  fleet.transact((tx) => requestPublish(tx, x, h2));
  fleet.transact((tx) => completePublish(tx, x, publicationOf(fleet), { exportPath: "/x", fixedSize: false }));
};
/** Publishes the disk and begins to unpublish it. Returns what its host says of its move. */
const ending = (fleet: TestFleet, change: Partial<CopiedTarget> = {}): readonly CopiedTarget[] => {
  mark(fleet);
  publish(fleet);
  const { sessionNumber = 0 } = target(fleet);
  fleet.transact((tx) => requestUnpublish(tx, x, undefined));
  return [{ deviceId: "d2", offsetBytes: 0, sessionNumber, copiedBytes: 8_192, ...change }];
};
const settle = (fleet: TestFleet, ended: readonly CopiedTarget[]) => {
  const seen = publicationOf(fleet);
  fleet.transact((tx) => noteEnded(tx, x, seen, ended));
  fleet.transact((tx) => completeUnpublish(tx, x, seen, true));
};

describe("the mark of a copy", () => {
  it("has a publication begin with the target, in a session after that of the disk", () => {
    const fleet = moving();
    const session = mark(fleet);
    fleet.transact((tx) => requestPublish(tx, x, h2));
    const { sessionNumber } = publicationOf(fleet);
    const expected = { copiedBytes: 4_096, sourceSession: session, targetSession: session };
    expect(target(fleet)).to.deep.include({ sessionNumber: sessionNumber + 1, mark: expected });
    expect(fleet.disk("x").lastSessionNumber).to.equal(sessionNumber + 1);
    const plan = planSession(fleet.tables, x);
    expect(plan?.extents[0]?.target).to.deep.include({ deviceId: "d2", copiedBytes: 4_096 });
    expect(plan?.mirror).to.deep.include({ deviceId: "d2", sessionNumber: sessionNumber + 1, mark: expected });
  });

  it("counts for one order to the host alone", () => {
    const fleet = moving();
    mark(fleet);
    fleet.transact((tx) => requestPublish(tx, x, h2));
    fleet.transact((tx) => spendMarks(tx, x, publicationOf(fleet)));
    expect(target(fleet)).to.have.property("sessionNumber");
    expect(planSession(fleet.tables, x)?.extents[0]?.target).to.not.have.property("copiedBytes");
  });

  it("is not noted by an agent of another session", () => {
    const fleet = moving();
    const seen = idle(fleet);
    publish(fleet);
    fleet.transact((tx) => noteCopied(tx, seen, 4_096));
    expect(target(fleet)).to.not.have.property("mark");
  });

  it("ends with the session of a publication that an agent may have been asked for, and with a failed try", () => {
    for (const end of [
      (fleet: TestFleet) => fleet.transact((tx) => renewSession(tx, x, publicationOf(fleet))),
      (fleet: TestFleet) => fleet.transact((tx) => requestUnpublish(tx, x, undefined)),
    ]) {
      const fleet = moving();
      mark(fleet);
      fleet.transact((tx) => requestPublish(tx, x, h2));
      end(fleet);
      expect(target(fleet)).to.not.have.property("mark");
    }
    const fleet = moving();
    mark(fleet);
    const seen = idle(fleet);
    fleet.transact((tx) => failTry(tx, seen, "no"));
    expect(target(fleet)).to.not.have.property("mark");
  });

  it("outlives a publication that no agent was asked for", () => {
    const fleet = moving();
    mark(fleet);
    fleet.transact((tx) => tx.devices.put({ ...fleet.device("d1"), attachState: "ATTACHING" }));
    fleet.transact((tx) => requestPublish(tx, x, h2));
    expect(publicationOf(fleet).unasked).to.equal(true);
    fleet.transact((tx) => requestUnpublish(tx, x, undefined));
    expect(fleet.disk("x").publication).to.equal(undefined);
    fleet.transact((tx) => tx.devices.put({ ...fleet.device("d1"), attachState: "ATTACHED" }));
    expect(idle(fleet).sessionNumber).to.equal(fleet.disk("x").lastSessionNumber);
    expect(target(fleet).mark?.copiedBytes).to.equal(4_096);
    fleet.transact((tx) => requestPublish(tx, x, h2));
    expect(fleet.transact((tx) => markAsked(tx, x, publicationOf(fleet)))).to.equal(true);
    expect(target(fleet).mark?.copiedBytes).to.equal(4_096);
  });

  it("is what the host says that ended its export", () => {
    const fleet = moving();
    const ended = ending(fleet);
    const { sessionNumber } = publicationOf(fleet);
    settle(fleet, ended);
    const targetSession = ended[0]?.sessionNumber ?? 0;
    expect(target(fleet).mark).to.deep.equal({ copiedBytes: 8_192, sourceSession: sessionNumber, targetSession });
    expect(planMove(fleet.tables, x)).to.deep.include({ kind: "begin" });
    fleet.transact((tx) => beginTry(tx, x));
    expect(target(fleet).mark?.copiedBytes).to.equal(8_192);
  });

  for (const [what, change] of [
    ["another target", { deviceId: "d3" }],
    ["another run", { offsetBytes: 4_096 }],
    ["another session", { sessionNumber: 1 }],
  ] as const)
    it(`is nothing that the host says of ${what}`, () => {
      const fleet = moving();
      settle(fleet, ending(fleet, change));
      expect(target(fleet)).to.not.have.any.keys("mark", "sessionNumber");
      expect(planMove(fleet.tables, x)).to.deep.include({ kind: "begin" });
    });

  it("is nothing that the host says after it was fenced, also when it had said it before", () => {
    for (const isSaidBefore of [true, false]) {
      const fleet = moving();
      const ended = ending(fleet);
      const seen = publicationOf(fleet);
      if (isSaidBefore) fleet.transact((tx) => noteEnded(tx, x, seen, ended));
      fleet.transact((tx) => fenceHost(tx, h2, { by: "me", atMs: 1, reason: "" }));
      fleet.transact((tx) => noteEnded(tx, x, seen, ended));
      settle(fleet, ended);
      expect(target(fleet)).to.not.have.any.keys("mark", "sessionNumber");
    }
  });

  it("leaves with its target", () => {
    const fleet = moving();
    settle(fleet, ending(fleet));
    fleet.transact((tx) => tx.devices.put({ ...fleet.device("d2"), health: "ERROR" }));
    expect(planMove(fleet.tables, x)).to.deep.include({ kind: "give_up" });
    expect(target(fleet).deviceId).to.equal(deviceId("d2"));
  });
});
