import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { CheckedWriter } from "./checked-writer.js";
import { Devices, dmsetup, info, NO_FREEZE, pathOf } from "./device-mapper.js";

const SECTORS = 65_536;
const DEPTH = 16;
const linear = (path: string): string => `0 ${SECTORS} linear ${path} 0`;

describe("what a process that was killed leaves of a change", () => {
  // A command of dmsetup is one or several ioctls. These are all states between two of them.
  const untilLoad = (disk: string) => dmsetup("load", disk, "--table", `0 ${SECTORS} error`);
  const untilSuspend = async (disk: string) => {
    await untilLoad(disk);
    await dmsetup("suspend", ...NO_FREEZE, disk);
  };

  for (const { state, leave, isHeld } of [
    { state: "Both:Active", leave: untilLoad, isHeld: false },
    { state: "Both:Suspended", leave: untilSuspend, isHeld: true },
  ])
    it(`${state} is undone by clear, then resume; resume alone makes the change`, async () => {
      await using devices = new Devices();
      const drive = await devices.drive(SECTORS);
      const disk = await devices.create("disk", linear(drive));
      const writer = await CheckedWriter.start(pathOf(disk), DEPTH);
      await leave(disk);
      expect(await info(disk, "tables_loaded,suspended")).to.equal(state);
      const before = writer.writes;
      if (isHeld) await sleep(500);
      else await writer.progress();
      if (isHeld) expect(writer.writes).to.equal(before);
      await dmsetup("clear", disk);
      await dmsetup("resume", disk);
      expect(await info(disk, "tables_loaded,suspended")).to.equal("Live:Active");
      await writer.progress();
      expect(writer.errors).to.deep.equal([]);
      await leave(disk);
      await dmsetup("resume", ...NO_FREEZE, disk);
      await writer.stop();
      expect(new Set(writer.errors)).to.deep.equal(new Set(["EIO"]));
      expect(await writer.faults(drive)).to.deep.equal([]);
    });

  it("of a device that was being made is a device without a table, found by its UUID", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const uuid = `DISKMESH-trial-${process.pid}-made`;
    const name = `dm-trial-${process.pid}-made`;
    const found = async () =>
      (await dmsetup("info", "--columns", "--noheadings", "--options", "uuid,name,tables_loaded"))
        .split("\n")
        .filter((line) => line.startsWith(uuid));
    for (const tables of ["None", "Inactive"]) {
      await dmsetup("create", name, "--uuid", uuid, "--notable");
      if (tables === "Inactive") await dmsetup("load", name, "--table", linear(drive));
      expect(await found()).to.deep.equal([`${uuid}:${name}:${tables}`]);
      await dmsetup("clear", name);
      await dmsetup("remove", name);
      expect(await found()).to.deep.equal([]);
    }
  });
});
