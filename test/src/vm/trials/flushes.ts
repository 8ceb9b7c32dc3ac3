import { type FileHandle, open } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { countersAt, Devices, dmsetup, NO_FREEZE, pathOf, wipe } from "./device-mapper.js";

const SECTORS = 65_536;
/** Time in ms in which a flush that does not wait ends. */
const FLUSH_MS = 500;

/** Makes a leg of a drive, and flushes it once. */
async function makeFlushed(devices: Devices) {
  const drive = await devices.drive(SECTORS);
  const leg = await devices.create("leg", `0 ${SECTORS} linear ${drive} 0`);
  const file = await open(pathOf(leg), "r+");
  devices.later(() => file.close());
  const flushes = () => countersAt(basename(drive)).flushes;
  const before = flushes();
  await file.sync();
  expect(flushes() - before, "flushes of a leg that its drive gets").to.equal(1);
  return { leg, file, flushes };
}

async function expectNoFlush({ file, flushes }: { readonly file: FileHandle; readonly flushes: () => number }) {
  const before = flushes();
  await file.sync();
  expect(flushes(), "flushes that the drive gets").to.equal(before);
}

describe("a flush", () => {
  it("of a wiped device succeeds, and its drive does not get it", async () => {
    await using devices = new Devices();
    const made = await makeFlushed(devices);
    await wipe(made.leg);
    await expectNoFlush(made);
  });

  it("of a device with the target error succeeds, and its drive does not get it", async () => {
    await using devices = new Devices();
    const made = await makeFlushed(devices);
    await dmsetup("load", made.leg, "--table", `0 ${SECTORS} error`);
    await dmsetup("resume", ...NO_FREEZE, made.leg);
    await expectNoFlush(made);
  });

  it("of a suspended device waits, and succeeds at the wipe", async () => {
    await using devices = new Devices();
    const { leg, file, flushes } = await makeFlushed(devices);
    const before = flushes();
    await dmsetup("suspend", ...NO_FREEZE, leg);
    const events: string[] = [];
    const flushed = file.sync().then(() => events.push("flushed"));
    await sleep(FLUSH_MS);
    events.push("wiped");
    await wipe(leg);
    await flushed;
    expect(events).to.deep.equal(["wiped", "flushed"]);
    expect(flushes()).to.equal(before);
  });
});
