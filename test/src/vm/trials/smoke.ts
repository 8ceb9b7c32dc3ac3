import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter, readDirect } from "./checked-writer.js";
import { Devices, dmsetup, info, pathOf, wipe } from "./device-mapper.js";

const SECTORS = 65_536;
const HALF = SECTORS / 2;
const BLOCKS = 8;
const WRITES = 300;
const EXCLUSIVE = constants.O_RDWR | constants.O_EXCL;
const linear = (path: string): string => `0 ${SECTORS} linear ${path} 0`;

describe("a leg of a drive", () => {
  it("takes no byte after its wipe, and its writers get EIO", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const leg = await devices.create("leg", linear(drive));
    const writer = await CheckedWriter.start(pathOf(leg), BLOCKS);
    const early = await readDirect(drive, BLOCKS);
    await eventually(() => writer.writes > WRITES);
    expect(await readDirect(drive, BLOCKS)).not.to.deep.equal(early);
    await wipe(leg);
    const atTheFence = await readDirect(drive, BLOCKS);
    await writer.ended();
    expect(new Set(writer.errors)).to.deep.equal(new Set(["EIO"]));
    expect(await writer.faults(drive)).to.deep.equal([]);
    expect(await readDirect(drive, BLOCKS)).to.deep.equal(atTheFence);
    await writer.stop();
  });
});

describe("the claim on a drive", () => {
  it("of an exclusive descriptor refuses legs; a guard refuses that descriptor, and has many legs", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const claim = await open(drive, EXCLUSIVE);
    try {
      expect((await rejection(devices.create("guard", linear(drive)), Error)).message).to.match(/busy/i);
    } finally {
      await claim.close();
    }
    const guard = await devices.create("guard", linear(drive));
    expect((await rejection(open(drive, EXCLUSIVE), Error)).message).to.match(/^EBUSY/);
    for (const half of [0, HALF]) await devices.create("leg", `0 ${HALF} linear ${pathOf(guard)} ${half}`);
    expect(await info(guard, "open")).to.equal("2");
    expect((await rejection(dmsetup("remove", guard), Error)).message).to.match(/busy/i);
  });
});
