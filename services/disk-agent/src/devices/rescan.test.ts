import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger } from "@diskmesh/domain";
import { type Clock, systemClock } from "@diskmesh/service";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DiscoveryRule } from "../model/discovery.js";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { fileOpener } from "../testing/slow-files.js";
import { Rescan } from "./rescan.js";

const SIZE = 16 * 4096;
const ANSWER_TIMEOUT_MS = 1_000;

describe("rescans", () => {
  let fixture: DeviceFixture;
  let rescan: Rescan;
  let changes = 0;
  /** Number of checks by path, for files whose checks never return. */
  const hanging = new Map<string, number>();
  let release = () => {};
  const warnings: object[] = [];
  let sleepers = 0;
  /** Number of checks that time out. No other check may, however busy the machine is. */
  let timeouts = 0;
  const sleep: Clock["sleep"] = async (durationMs, signal) => {
    sleepers++;
    try {
      // Waits until only the hanging check is left.
      do await systemClock.sleep(durationMs, signal);
      while (timeouts === 0 || sleepers > 1 || ![...hanging.values()].some((looks) => looks > 0));
      timeouts--;
    } finally {
      sleepers--;
    }
  };

  beforeEach(() => {
    fixture = new DeviceFixture([{ id: "listed", file: "listed" }]);
    makeDeviceFile(fixture.folder, "listed", SIZE);
    const pool = { pool: "", minSizeBytes: 1, maxSizeBytes: SIZE * 10, blockSizeBytes: 4096 };
    const rule: DiscoveryRule = {
      glob: join(fixture.folder, "disk-*"),
      idPrefix: "h",
      maxDevicesPerFile: 1,
      pools: [pool],
    };
    hanging.clear();
    changes = 0;
    timeouts = 0;
    warnings.length = 0;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    rescan = new Rescan({
      devices: fixture.devices,
      rules: [rule],
      opener: {
        look: async (path) => {
          const looks = hanging.get(path);
          if (looks !== undefined) {
            hanging.set(path, looks + 1);
            await released;
          }
          return fileOpener.look(path);
        },
      },
      maxDevices: 4,
      answerTimeoutMs: ANSWER_TIMEOUT_MS,
      clock: { ...systemClock, sleep },
      log: { ...silentLogger, warn: (fields) => void warnings.push(fields) },
      onChange: () => {
        changes++;
      },
    });
  });

  afterEach(() => fixture.stop());

  const ids = () => fixture.devices.all().map((device) => device.id);

  it("a new file becomes a device that is reported once, with its size, and not held", async () => {
    makeDeviceFile(fixture.folder, "disk-a", SIZE);
    expect((await rescan.run()).changedDeviceIds).to.include("h-disk-a");
    expect(ids()).to.deep.equal(["h-disk-a", "listed"]);
    expect(fixture.device("h-disk-a").sizeBytes).to.equal(SIZE);
    expect(changes).to.be.above(0);
    const before = changes;
    expect((await rescan.run()).changedDeviceIds).to.deep.equal([]);
    expect(changes).to.equal(before);
  });

  it("a rule without matches is reported with its glob, and logged once until that changes", async () => {
    const glob = join(fixture.folder, "disk-*");
    const nothing = [{ path: glob, reason: "no file matches this glob" }];
    expect((await rescan.run()).skipped).to.deep.equal(nothing);
    await rescan.run();
    expect(warnings).to.deep.equal(nothing);
    const path = makeDeviceFile(fixture.folder, "disk-a", SIZE);
    expect((await rescan.run()).skipped).to.deep.equal([]);
    expect((await rescan.run()).skipped, "its file is a device already").to.deep.equal([]);
    rmSync(path);
    await rescan.run();
    expect(warnings).to.deep.equal([...nothing, ...nothing]);
  });

  it("a hanging file is pending, checked once, delays nothing, and becomes a device once it answers", async () => {
    const stalled = makeDeviceFile(fixture.folder, "disk-stalled", SIZE);
    makeDeviceFile(fixture.folder, "disk-ok", SIZE);
    hanging.set(stalled, 0);
    timeouts = 1;
    const result = await rescan.run();
    expect(result.pendingPaths).to.deep.equal([stalled]);
    expect(result.changedDeviceIds).to.include("h-disk-ok");
    timeouts = 1;
    expect((await rescan.run()).pendingPaths).to.deep.equal([stalled]);
    expect(hanging.get(stalled)).to.equal(1);
    hanging.clear();
    release();
    await eventually(async () => {
      await rescan.run();
      return ids().includes("h-disk-stalled" as never);
    });
  });

  it("files above the maximum are refused with the reason", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) makeDeviceFile(fixture.folder, `disk-${name}`, SIZE);
    const { skipped } = await rescan.run();
    expect(ids()).to.deep.equal(["h-disk-a", "h-disk-b", "h-disk-c", "listed"]);
    expect(skipped.map(({ reason }) => reason)).to.deep.equal(
      Array(2).fill("the agent already has the maximum number of devices"),
    );
  });

  it("a held file that is replaced, truncated or removed is ERROR and stays held, and ONLINE when it is back", async () => {
    await fixture.order("attach", "listed", 1);
    const path = fixture.device("listed").config.path;
    const health = () => fixture.device("listed").problem?.message ?? "ONLINE";
    writeFileSync(path, Buffer.alloc(SIZE / 2));
    expect((await rescan.run()).changedDeviceIds).to.deep.equal(["listed"]);
    expect(health()).to.match(/has another size .*: its size was 64 KiB, is 32 KiB/);
    expect(fixture.device("listed").reported.sizeBytes).to.equal(SIZE / 2);
    writeFileSync(path, Buffer.alloc(SIZE));
    await rescan.run();
    expect(health()).to.equal("ONLINE");
    rmSync(path);
    expect((await rescan.run()).changedDeviceIds).to.deep.equal(["listed"]);
    expect(health()).to.match(/there is no such file/);
    expect(fixture.device("listed").reported).to.deep.equal({ sizeBytes: SIZE, serialNumber: "", fileIdentity: "" });
    expect(fixture.files.openCount).to.equal(1);
    expect(fixture.device("listed").attached).to.equal(true);
    expect(changes).to.equal(0);
  });
});
