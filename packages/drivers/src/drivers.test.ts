import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { blockDeviceOf } from "./block-device.js";
import { locateLightIn } from "./disk-identify.js";
import { parseIoStatistics } from "./io-statistics.js";
import { parseSmart, readSmart } from "./smart.js";
import { verdictOf } from "./verdict.js";

const NOTHING = {
  model: "",
  passed: undefined,
  temperatureCelsius: undefined,
  powerOnHours: undefined,
  reallocatedSectors: undefined,
  pendingSectors: undefined,
  percentageUsed: undefined,
  mediaErrors: undefined,
};

describe("parsing smartctl's output", () => {
  const rows: readonly (readonly [string, unknown, object])[] = [
    [
      "of a drive with SATA",
      {
        model_name: "X",
        smart_status: { passed: true },
        temperature: { current: 31 },
        power_on_time: { hours: 12 },
        ata_smart_attributes: {
          table: [
            { id: 5, raw: { value: 7 } },
            { id: 197, raw: { value: 0 } },
          ],
        },
      },
      { model: "X", passed: true, temperatureCelsius: 31, powerOnHours: 12, reallocatedSectors: 7, pendingSectors: 0 },
    ],
    [
      "of a drive with NVMe",
      { smart_status: { passed: false }, nvme_smart_health_information_log: { percentage_used: 101, media_errors: 3 } },
      { passed: false, percentageUsed: 101, mediaErrors: 3 },
    ],
  ];
  for (const [title, said, smart] of rows)
    it(title, () => {
      expect(parseSmart(JSON.stringify(said), "/dev/sda")).to.deep.equal({ ...NOTHING, ...smart });
    });

  it("reports what is missing for an empty output or text that is no JSON", () => {
    const said = { smartctl: { messages: [{ string: "Unable to detect device type" }] } };
    expect(() => parseSmart(JSON.stringify(said), "/dev/vda")).to.throw(
      "smartctl reports nothing about /dev/vda: Unable to detect device type",
    );
    expect(() => parseSmart("usage: smartctl", "/dev/vda")).to.throw("smartmontools 7 or later");
  });

  it("reports a missing smartctl with the package to install, and accepts output with a nonzero exit code", async () => {
    await rejection(
      readSmart("/dev/sda", "/nowhere/smartctl"),
      Error,
      "the host has no smartctl: install smartmontools",
    );
    const program = join(temporaryFolder(), "smartctl");
    writeFileSync(program, '#!/bin/sh\necho "{\\"model_name\\": \\"$4\\"}"\nexit 64\n');
    chmodSync(program, 0o700);
    expect((await readSmart("/dev/sda", program)).model).to.equal("/dev/sda");
  });
});

describe("the verdict on a drive", () => {
  const thresholds = {
    reallocatedSectors: 50,
    pendingSectors: 0,
    temperatureCelsius: 65,
    percentageUsed: 95,
    mediaErrors: 0,
    probeLatencyMs: 100,
  };
  const rows: readonly (readonly [string, Parameters<typeof verdictOf>[0], readonly number[], string | undefined])[] = [
    ["nothing is known", undefined, [], undefined],
    ["all is well", { passed: true, reallocatedSectors: 50, temperatureCelsius: 30 }, [1, 2, 3], undefined],
    ["it says so itself", { passed: false }, [], "the drive itself says that it is failing"],
    ["too many sectors", { reallocatedSectors: 51 }, [], "51 reallocated sectors, more than 50"],
    [
      "worn out, and errors",
      { percentageUsed: 99, mediaErrors: 1 },
      [],
      "99 percent of its life used, more than 95; 1 media errors, more than 0",
    ],
    ["one slow read of many", undefined, [1, 900, 1], undefined],
    ["mostly slow reads", undefined, [1, 900, 901], "half of the last 3 reads took more than 100 ms"],
  ];
  for (const [title, smart, latenciesMs, verdict] of rows)
    it(`${title} -> ${verdict}`, () => {
      expect(verdictOf(smart, latenciesMs, thresholds)).to.equal(verdict);
    });
});

it("parses the kernel's statistics of a drive into bytes and ms", () => {
  expect(parseIoStatistics("  10 0 16 5 20 0 32 7 1 9 12 0 0 0 0 0 0\n")).to.deep.equal({
    reads: 10,
    readBytes: 8_192,
    readMs: 5,
    writes: 20,
    writtenBytes: 16_384,
    writeMs: 7,
    inFlight: 1,
  });
  expect(parseIoStatistics("none")).to.equal(undefined);
});

it("finds the locate light of a slot that has one", async () => {
  const folder = temporaryFolder();
  expect(await locateLightIn(folder)).to.equal(undefined);
  const slot = join(folder, "device", "enclosure_device:Slot 3");
  mkdirSync(slot, { recursive: true });
  writeFileSync(join(slot, "locate"), "0\n");
  expect(await locateLightIn(folder)).to.equal(join(slot, "locate"));
});

it("refuses a regular file, because it has no drive", async () => {
  const file = join(temporaryFolder(), "disk");
  writeFileSync(file, "");
  await rejection(blockDeviceOf(file), Error, "only a block device has a drive of its own");
});
