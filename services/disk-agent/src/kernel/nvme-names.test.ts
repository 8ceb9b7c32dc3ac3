import type { DeviceId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import {
  connectLine,
  fleetOf,
  formatNqn,
  initiatorOf,
  isInitiator,
  isOfRestarted,
  isSubsystemOf,
  namespaceNguid,
  namespaceUuid,
  parseNqn,
  startOfNguid,
} from "./nvme-names.js";

const BOOT = "26436f64-e4bc-4e03-b2e8-98ecc1fbf097";
const OTHER_BOOT = "00000000-0000-4000-8000-000000000000";
const NAME = {
  fleet: fleetOf("tablet-1"),
  hostId: "host-1" as HostId,
  sessionNumber: 7,
  deviceId: "a" as DeviceId,
  offsetBytes: 65_536,
};
const SUBSYSTEM = { fleet: NAME.fleet, hostId: NAME.hostId, sessionNumber: 7, machineBootId: BOOT };

describe("names of NVMe/TCP", () => {
  it("of a subsystem say its fleet, host, session and boot id", () => {
    const nqn = formatNqn(SUBSYSTEM);
    expect(parseNqn(nqn)).to.deep.equal(SUBSYSTEM);
    expect(isSubsystemOf(nqn, NAME)).to.equal(true);
    expect(isSubsystemOf(nqn, { ...NAME, sessionNumber: 8 })).to.equal(false);
  });

  it("of the longest ids have less than the 223 characters of an NQN", () => {
    const hostId = "h".repeat(64) as HostId;
    const longest = { ...SUBSYSTEM, hostId, sessionNumber: Number.MAX_SAFE_INTEGER };
    expect(formatNqn(longest).length).to.be.below(223);
    expect(parseNqn(formatNqn(longest))).to.deep.equal(longest);
  });

  for (const nqn of ["nqn.2014-08.org.nvmexpress.discovery", `${formatNqn(SUBSYSTEM)}x`, "nqn.2026-11.io.diskmesh:a"])
    it(`of others are not read: ${nqn}`, () => {
      expect(parseNqn(nqn)).to.equal(undefined);
    });

  it("of a namespace differ by device, byte, session, host, boot id and fleet", () => {
    const subsystems = [
      SUBSYSTEM,
      { ...SUBSYSTEM, sessionNumber: 8 },
      { ...SUBSYSTEM, hostId: "host-2" as HostId },
      { ...SUBSYSTEM, fleet: fleetOf("tablet-2") },
      { ...SUBSYSTEM, machineBootId: OTHER_BOOT },
    ];
    const names = [NAME, { ...NAME, deviceId: "b" as DeviceId }, { ...NAME, offsetBytes: 0 }];
    const uuids = subsystems.flatMap((each) => names.map((name) => namespaceUuid(formatNqn(each), name)));
    expect(new Set(uuids).size).to.equal(15);
    expect(uuids[0]).to.match(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it("of a namespace say at which byte of the device it begins, and whose it is", () => {
    const start = Number.MAX_SAFE_INTEGER;
    const nqn = formatNqn(SUBSYSTEM);
    expect(startOfNguid(nqn, NAME, namespaceNguid(nqn, NAME, start))).to.equal(start);
    expect(startOfNguid(nqn, { ...NAME, offsetBytes: 0 }, namespaceNguid(nqn, NAME, start))).to.equal(undefined);
    expect(startOfNguid(nqn, NAME, "")).to.equal(undefined);
  });

  it("tell a machine that has restarted from one that has not", () => {
    const former = [undefined, formatNqn(SUBSYSTEM)];
    expect(isOfRestarted(former, formatNqn(SUBSYSTEM))).to.equal(false);
    expect(isOfRestarted(former, formatNqn({ ...SUBSYSTEM, machineBootId: OTHER_BOOT }))).to.equal(true);
    expect(isOfRestarted(former, formatNqn({ ...SUBSYSTEM, sessionNumber: 8, machineBootId: OTHER_BOOT }))).to.equal(
      false,
    );
    expect(isOfRestarted(former, undefined)).to.equal(false);
  });

  it("of a holder are those of its host in each fleet", () => {
    const { nqn } = initiatorOf(NAME.fleet, NAME.hostId);
    expect(isInitiator(nqn, NAME.hostId)).to.equal(true);
    expect(isInitiator(nqn, "host-2" as HostId)).to.equal(false);
  });

  it("make a connection whose I/O fails after the given time, and which only the agent ends", () => {
    const target = { nqn: formatNqn(SUBSYSTEM), address: { host: "10.0.0.1", port: 4420 } };
    const line = connectLine(target, initiatorOf(NAME.fleet, NAME.hostId), 2_500);
    expect(line).to.contain("transport=tcp,traddr=10.0.0.1,trsvcid=4420,nqn=nqn.2026-11.io.diskmesh:");
    expect(line).to.contain("ctrl_loss_tmo=-1,fast_io_fail_tmo=3");
  });
});
