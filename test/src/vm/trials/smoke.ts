import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter, readDirect } from "./checked-writer.js";
import { Devices, pathOf, wipe } from "./device-mapper.js";

const BLOCKS = 8;

describe("a leg of a drive", () => {
  it("takes no byte after its wipe, and its writers get EIO", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(32_768);
    const leg = await devices.create("leg", `0 16384 linear ${drive} 0`);
    const writer = await CheckedWriter.start(pathOf(leg), BLOCKS);
    await eventually(() => writer.writes > 1_000);
    await wipe(leg);
    const atTheFence = await readDirect(drive, BLOCKS);
    await writer.ended();
    expect(new Set(writer.errors)).to.deep.equal(new Set(["EIO"]));
    expect(await writer.faults(drive)).to.deep.equal([]);
    expect(await readDirect(drive, BLOCKS)).to.deep.equal(atTheFence);
    await writer.stop();
  });
});
