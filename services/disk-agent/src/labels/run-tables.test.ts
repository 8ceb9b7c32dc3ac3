import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DeviceId, RunRecord } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";

import { decodeTable, MAX_TABLE_ENTRIES, RUN_UNIT_BYTES, tableWrite } from "../model/run-table.js";
import { DeviceFixture, LEADER, runOf } from "../testing/device-fixture.js";
import { diskDigest } from "./disk-digest.js";

const OFFSET = 8_192;
const MIB = 16 * RUN_UNIT_BYTES;
const SLICES = 6;
const SIZE = RUN_UNIT_BYTES + SLICES * MIB;
/** Has no erase wait beside a disk that is in use. */
const FAST = { maxBytesPerSecond: 1e15 };
const stamp = { ...LEADER, deviceGeneration: 0 };
const record: RunRecord = {
  ...{ diskSizeBytes: MIB, blockSizeBytes: 4096, pool: "fast", partCount: 1, layout: 0, clean: false },
  parts: [{ index: 0, offsetBytes: RUN_UNIT_BYTES, sizeBytes: MIB - RUN_UNIT_BYTES }],
};
const run = (first: number, count = 1) =>
  runOf("a", { offsetBytes: RUN_UNIT_BYTES + first * MIB, sizeBytes: count * MIB });

describe("the tables of runs on an agent's devices", () => {
  let fixture: DeviceFixture;
  const device = () => fixture.device("a");
  const open = async (number: number, first: number, diskId = "disk-1", count = 1, holderHostId = "host-1") => {
    const wish = { number, purpose: "disk" as const, diskId, holderHostId };
    const [outcome] = await fixture.sessions.open([{ ...run(first, count), record }], wish, stamp);
    return outcome?.outcome;
  };
  const openPatiently = async (number: number, first: number, diskId: string) => {
    const wish = { number, purpose: "disk" as const, diskId, holderHostId: "host-1" };
    const [outcome] = await fixture.sessions.open([{ ...run(first), record }], wish, stamp, { waitMs: 10_000 });
    return outcome?.outcome;
  };
  const erase = async (number: number, first: number, count = 1) => {
    const { outcome } = await fixture.eraser.erase(run(first, count), number, stamp);
    const [closed] = await fixture.sessions.close([run(first, count)], number, stamp);
    return [outcome.outcome, closed?.outcome];
  };
  /** Disks on the device by first slice, as the device says. */
  const table = async () => {
    const names = new Map(["disk-1", "disk-2", "disk-3"].map((id) => [diskDigest(id), id]));
    const { entries } = await fixture.sessions.claims.tables.read(device());
    return entries.map(({ offsetBytes, sizeBytes, disk }) =>
      [(offsetBytes - RUN_UNIT_BYTES) / MIB, sizeBytes / MIB, names.get(disk)].join(" "),
    );
  };
  const sessions = () => {
    const { sessions: all = [] } = fixture.ledger.memory.devices.get("a" as DeviceId) ?? {};
    return all.map(({ number }) => number);
  };
  const devices = [{ id: "a", file: "a", offsetBytes: OFFSET, sizeBytes: SIZE }];

  beforeEach(async () => {
    fixture = new DeviceFixture(devices, RUN_UNIT_BYTES, FAST);
    writeFileSync(join(fixture.folder, "a"), Buffer.alloc(OFFSET + SIZE + OFFSET));
    await fixture.order("attach", "a", 1);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  it("have a run from before its first session until after its erase", async () => {
    expect(await open(1, 2)).to.equal("done");
    expect(await open(2, 0, "disk-2", 2)).to.equal("done");
    expect(await table()).to.deep.equal(["0 2 disk-2", "2 1 disk-1"]);
    expect(await open(3, 2)).to.equal("done");
    expect(await erase(4, 2)).to.deep.equal(["done", "done"]);
    expect(await table()).to.deep.equal(["0 2 disk-2"]);
    expect(await open(5, 2, "disk-3")).to.equal("done");
    expect(await open(6, 0, "disk-2", 2, "")).to.equal("done");
    expect(await table()).to.deep.equal(["0 2 disk-2", "2 1 disk-3"]);
  });

  it("have an erased run until its removal is durable, and the agent remembers it so long", async () => {
    await open(1, 2);
    expect((await fixture.eraser.erase(run(2), 2, stamp)).outcome.outcome).to.equal("done");
    fixture.files.failNextSync = Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    const close = async () => (await fixture.sessions.close([run(2)], 2, stamp))[0];
    expect(await close()).to.include({ outcome: "io_error" });
    expect([sessions(), await table()]).to.deep.equal([[2], ["2 1 disk-1"]]);
    expect(await close()).to.include({ outcome: "already" });
    expect([sessions(), await table()]).to.deep.equal([[], []]);
  });

  it("have the length to which a run has grown before its session has it", async () => {
    await open(1, 1);
    fixture.files.writes.shut();
    const growing = open(1, 1, "disk-1", 2);
    await eventually(() => fixture.files.writes.arrivals >= 2);
    expect(fixture.ledger.memory.devices.get("a" as DeviceId)?.sessions?.[0]?.sizeBytes).to.equal(MIB);
    fixture.files.writes.open();
    expect(await growing).to.equal("done");
    expect(await table()).to.deep.equal(["1 2 disk-1"]);
  });

  it("are durable before the session is remembered, and refuse it when they are not", async () => {
    fixture.files.writes.shut();
    const opening = open(1, 2);
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(sessions()).to.deep.equal([]);
    expect(await opening).to.equal("pending");
    fixture.files.writes.open();
    await eventually(() => device().inFlight === 0);
    fixture.files.failNextSync = Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    const wish = { number: 2, purpose: "disk" as const, diskId: "disk-1", holderHostId: "host-1" };
    const [refused] = await fixture.sessions.open([{ ...run(3), record }], wish, stamp);
    expect(refused?.outcome).to.equal("io_error");
    expect(refused?.message).to.match(/^the table of runs of device a: .*EIO/);
    expect(sessions()).to.deep.equal([]);
    expect(await open(2, 3)).to.equal("done");
    expect(await open(3, 2)).to.equal("done");
    expect(await table()).to.deep.equal(["2 1 disk-1", "3 1 disk-1"]);
  });

  it("keep the disk of the later session when orders meet", async () => {
    fixture.files.writes.shut();
    const [late, early] = [openPatiently(7, 2, "disk-2"), openPatiently(6, 2, "disk-1")];
    await eventually(() => fixture.files.writes.arrivals === 1);
    fixture.files.writes.open();
    expect([await late, await early]).to.deep.equal(["done", "outdated"]);
    expect(await table()).to.deep.equal(["2 1 disk-2"]);
    expect(await open(5, 2, "disk-1")).to.equal("outdated");
    expect(await table()).to.deep.equal(["2 1 disk-2"]);
  });

  it("keep a run that a later session has entered while the order about its erase is late", async () => {
    await open(1, 2);
    expect(await erase(2, 2)).to.deep.equal(["done", "done"]);
    expect(await open(3, 2, "disk-2")).to.equal("done");
    await fixture.sessions.close([run(2)], 2, stamp);
    await fixture.sessions.claims.tables.remove(run(2), 2);
    expect(await table()).to.deep.equal(["2 1 disk-2"]);
  });

  it("are kept over a restart, and a torn slot loses the last change alone", async () => {
    await open(1, 2);
    await open(2, 0, "disk-2");
    await fixture.stop();
    const { folder, ledger } = fixture;
    const path = join(folder, "a");
    const bytes = readFileSync(path);
    bytes.fill(0xff, OFFSET + RUN_UNIT_BYTES / 2 + 4_096 + 40, OFFSET + RUN_UNIT_BYTES / 2 + 4_096 + 64);
    writeFileSync(path, bytes);
    fixture = new DeviceFixture(devices, RUN_UNIT_BYTES, FAST, { folder, memory: ledger.memory });
    await fixture.devices.start({ waitMs: 10_000 });
    expect(await table()).to.deep.equal(["2 1 disk-1"]);
    expect(await open(2, 0, "disk-2")).to.equal("already");
    expect(await table()).to.deep.equal(["0 1 disk-2", "2 1 disk-1"]);
  });

  const label = {
    ...{ fleetId: "tablet-1", deviceId: "a" as DeviceId, labelId: "b".repeat(32) },
    ...{ sizeBytes: SIZE, sliceBytes: MIB, offsetBytes: OFFSET },
  };
  const area = runOf("a", { offsetBytes: 0, sizeBytes: RUN_UNIT_BYTES });

  it("take runs of a device of which an erase of all bytes was never forgotten, once it has a label", async () => {
    await open(1, 2, "disk-2");
    const erase = { number: 2, purpose: "erase" as const, diskId: "", holderHostId: "" };
    expect((await fixture.sessions.open([runOf("a")], erase, stamp))[0]?.outcome).to.equal("done");
    expect(await open(3, 1, "disk-1", 1, ""), "a fence, which leaves two pieces of the erase").to.equal("done");
    expect(sessions()).to.deep.equal([2, 3, 2]);
    expect(await open(4, 1)).to.equal("pending");
    expect((await fixture.labels.write(area, 5, label, stamp)).outcome.outcome).to.equal("done");
    expect(await table(), "what was there before").to.deep.equal([]);
    expect(await open(6, 1)).to.equal("done");
    expect(await table()).to.deep.equal(["1 1 disk-1"]);
  });

  it("are beside the label, and wait for it", async () => {
    await open(1, 2);
    const [written, opened] = await Promise.all([fixture.labels.write(area, 3, label, stamp), open(4, 3, "disk-2")]);
    expect([written.outcome.outcome, opened]).to.deep.equal(["done", "done"]);
    expect(await table()).to.deep.equal(["2 1 disk-1", "3 1 disk-2"]);
    await fixture.labels.look();
    expect(fixture.labels.of(device())).to.deep.include({ state: "valid", label });
  });

  it("are gone with all bytes of the device, and are none in bytes of a disk", async () => {
    await open(1, 2);
    const area = readFileSync(join(fixture.folder, "a")).subarray(OFFSET, OFFSET + RUN_UNIT_BYTES);
    expect((await fixture.eraser.erase(runOf("a"), 2, stamp)).outcome.outcome).to.equal("done");
    await fixture.sessions.close([runOf("a")], 2, stamp);
    expect(await table()).to.deep.equal([]);
    expect(await fixture.openSession("a", 3)).to.equal("done");
    await device().write(3, 0, area, { fua: true });
    expect(await table(), "a table that the disk wrote").to.deep.equal([]);
  });

  it("refuse a run for which they have no room", async () => {
    const entries = Array.from({ length: MAX_TABLE_ENTRIES }, (_, at) => ({
      offsetBytes: (SLICES + at + 1) * MIB,
      sizeBytes: MIB,
      disk: diskDigest(`other-${at}`),
    }));
    const path = join(fixture.folder, "a");
    const bytes = readFileSync(path);
    const block = tableWrite(decodeTable(Buffer.alloc(0)), entries);
    block.bytes.copy(bytes, OFFSET + block.offsetBytes);
    writeFileSync(path, bytes);
    const wish = { number: 1, purpose: "disk" as const, diskId: "disk-1", holderHostId: "host-1" };
    const [refused] = await fixture.sessions.open([{ ...run(1), record }], wish, stamp);
    expect(refused).to.deep.include({ outcome: "io_error" });
    expect(refused?.message).to.match(/device a has 1193 runs, the most that fit: delete disks there/);
    expect((await fixture.sessions.claims.tables.read(device())).entries.length).to.equal(MAX_TABLE_ENTRIES);
  });
});
