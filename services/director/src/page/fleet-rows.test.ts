import { Disk, Host } from "@diskmesh/api/registry";
import { expect } from "chai";
import { diskRow, hostRow } from "./fleet-rows.js";

const [ONLINE_SINCE, CORDONED_AT, REMOVED_AT] = [new Date(1_000), new Date(2_000), new Date(3_000)];
const host: Parameters<typeof Host.fromPartial>[0] = {
  hostId: "h",
  state: "HOST_STATE_ONLINE",
  stateChangeTime: ONLINE_SINCE,
};
const cordoned = { by: "operator", setTime: CORDONED_AT, reason: "new firmware" };
const trouble = { sentence: "is to be removed", startTime: REMOVED_AT };

describe("the row of a host", () => {
  for (const [what, change, expected] of [
    ["has the time since when it is online", {}, ONLINE_SINCE],
    ["has the time of its cordon", { cordoned }, CORDONED_AT],
    ["has the time when a cordoned host fell silent", { cordoned, state: "HOST_STATE_UNAVAILABLE" }, ONLINE_SINCE],
    ["has the start of its trouble", { cordoned, removalRequested: true, trouble }, REMOVED_AT],
    ["has no time once its removal is done", { cordoned, removalRequested: true }, undefined],
  ] as const)
    it(what, () => {
      const { sinceMs } = hostRow(Host.fromPartial({ ...host, ...change }), "");
      expect(sinceMs).to.equal(expected?.getTime());
    });

  it("is suspected with the registry's text, unless the host is dead; its removal is done without trouble", () => {
    const row = (change: object) => hostRow(Host.fromPartial({ ...host, ...change }), "");
    const told = { trouble: trouble.sentence, sinceMs: REMOVED_AT.getTime() };
    expect(row({ suspected: true, trouble })).to.include({ state: "suspected", ...told });
    expect(row({ suspected: true, trouble, state: "HOST_STATE_DEAD" })).to.include({ state: "dead" });
    expect(row({ removalRequested: true, trouble })).to.include({ removal: "wanted", ...told });
    expect(row({ removalRequested: true }))
      .to.include({ removal: "done" })
      .and.not.to.have.property("trouble");
  });
});

describe("the row of a disk", () => {
  it("that is deleted has the name that its director forgot, and the time of its deletion", () => {
    const createTime = new Date(1_000);
    const disk = { diskId: "d", createTime, labels: [{ name: "disk_name", value: "scratch" }] };
    expect(diskRow(Disk.fromPartial(disk)))
      .to.include({ state: "free", sinceMs: 1_000 })
      .and.not.to.have.property("formerName");
    const deleted = diskRow(Disk.fromPartial({ ...disk, deleteTime: new Date(2_000) }));
    expect(deleted).to.include({ state: "deleted", formerName: "scratch", sinceMs: 2_000 });
    expect(diskRow(Disk.fromPartial({ ...disk, labels: [], deleteTime: new Date(2_000) }))).not.to.have.property(
      "formerName",
    );
  });
});
