import { expect } from "chai";
import { attached, NOW_MS, unknown } from "../../testing/cms-actions.js";
import { aHost, type DeviceFields, deviceId, TestFleet } from "../../testing/fleet-fixture.js";
import { addDevice } from "../hosts/add-action.js";
import { endedSessions } from "./ended-sessions.js";

const OTHER = { path: "/dev/new", offsetBytes: 0, sizeBytes: 5, blockSizeBytes: 1, serialNumber: "new" };
const replaced: DeviceFields = { health: "ERROR", replacement: OTHER };
/** Last session number that the fleet of a test has given. */
const LAST = 200;

describe("the sessions that end with an attach order", () => {
  const rows = [
    ["an added device", unknown("d1"), LAST],
    ["a device that was out of operation", attached("d1", { attachState: "DETACHED" }), LAST],
    ["other hardware that is accepted", attached("d1", replaced), LAST],
    ["grown hardware that is accepted", attached("d1", { grownToBytes: 2 ** 30 }), 0],
    ["a device in operation that is added again", attached("d1"), 0],
  ] as const;
  for (const [title, device, ended] of rows)
    it(`${title} -> up to ${ended}`, () => {
      const fleet = new TestFleet({ hosts: [aHost("h1")], devices: [device] });
      fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 1 }));
      expect(endedSessions(fleet.device("d1"))).to.equal(ended);
    });

  it("an unknown disk on the device keeps its session until an operator has decided", () => {
    const device = attached("d1", { endedSessionNumber: 7 });
    const unknownSession = { sessionNumber: 6, diskId: "" } as const;
    expect(endedSessions(device)).to.equal(7);
    expect(endedSessions({ ...device, unknownSession })).to.equal(0);
  });
});
