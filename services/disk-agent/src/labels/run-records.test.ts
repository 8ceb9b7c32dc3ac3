import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunRecord } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { recordWrite } from "../model/run-record.js";
import { RUN_UNIT_BYTES } from "../model/run-table.js";
import { DeviceFixture, LEADER, runOf } from "../testing/device-fixture.js";

const MIB = 16 * RUN_UNIT_BYTES;
const SIZE = RUN_UNIT_BYTES + 3 * MIB;
const PATTERN = 0xa5;
/** Has no erase wait beside a disk that is in use. */
const FAST = { maxBytesPerSecond: 1e15 };
const stamp = { ...LEADER, deviceGeneration: 0 };
const aRecord = (change: Partial<RunRecord> = {}): RunRecord => ({
  ...{ diskSizeBytes: MIB, blockSizeBytes: 4096, pool: "fast", partCount: 1, layout: 0, clean: false },
  parts: [{ index: 0, offsetBytes: RUN_UNIT_BYTES, sizeBytes: MIB - RUN_UNIT_BYTES }],
  ...change,
});
const RUN = runOf("a", { offsetBytes: RUN_UNIT_BYTES + MIB, sizeBytes: MIB });

describe("the records of runs", () => {
  let fixture: DeviceFixture;
  let path: string;
  const device = () => fixture.device("a");
  const open = async (number: number, record?: RunRecord, holderHostId = "host-1") => {
    const wish = { number, purpose: "disk" as const, diskId: "disk-1", holderHostId };
    const [outcome] = await fixture.sessions.open([{ ...RUN, record }], wish, stamp);
    return outcome;
  };
  const found = async () => (await fixture.sessions.claims.records.read(device(), RUN))?.record;
  const written = (sessionNumber: number, change: Partial<RunRecord> = {}) => ({
    ...aRecord(change),
    ...{ diskId: "disk-1", sessionNumber },
  });

  beforeEach(async () => {
    fixture = new DeviceFixture([{ id: "a", file: "a" }], RUN_UNIT_BYTES, FAST);
    path = join(fixture.folder, "a");
    writeFileSync(path, Buffer.alloc(SIZE, PATTERN));
    await fixture.order("attach", "a", 1);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  it("are written before a session with a holder is granted, in its first bytes alone", async () => {
    expect((await open(1, aRecord()))?.outcome).to.equal("done");
    expect(await found()).to.deep.equal(written(1));
    expect((await open(2, aRecord()))?.outcome).to.equal("done");
    expect(await found()).to.deep.equal(written(2));
    const bytes = readFileSync(path);
    const head = RUN.offsetBytes + RUN_UNIT_BYTES;
    const others = Buffer.concat([bytes.subarray(RUN_UNIT_BYTES, RUN.offsetBytes), bytes.subarray(head)]);
    expect(others.every((byte) => byte === PATTERN)).to.equal(true);
  });

  it("follow the layout within the session, but no late order", async () => {
    await open(1, aRecord({ layout: 1 }));
    expect((await open(1, aRecord({ layout: 2, partCount: 2 })))?.outcome).to.equal("already");
    expect(await found()).to.deep.equal(written(1, { layout: 2, partCount: 2 }));
    expect((await open(1, aRecord({ layout: 1 })))?.outcome).to.equal("already");
    expect(await found()).to.deep.equal(written(1, { layout: 2, partCount: 2 }));
    expect((await open(1))?.outcome, "without a record").to.equal("already");
    expect(await found()).to.deep.equal(written(1, { layout: 2, partCount: 2 }));
  });

  it("say that the disk is clean at the end of its holder, which does not depend on them", async () => {
    await open(1, aRecord());
    expect((await open(2, aRecord({ clean: true }), ""))?.outcome).to.equal("done");
    expect(await found()).to.deep.equal(written(2, { clean: true }));
    await open(3, aRecord());
    fixture.files.failNextSync = Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    expect((await open(4, aRecord({ clean: true }), ""))?.outcome).to.equal("done");
    expect(await found()).to.deep.equal(written(3));
    expect((await open(5, undefined, ""))?.outcome, "a fence").to.equal("done");
    expect(await found()).to.deep.equal(written(3));
  });

  it("refuse a session while they cannot be written", async () => {
    await open(1, aRecord());
    fixture.files.failNextSync = Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
    const refused = await open(2, aRecord());
    expect(refused?.outcome).to.equal("io_error");
    expect(refused?.message).to.match(/^the record of bytes 1114112 to 2162687 of device a: .*EIO/);
    expect(await found()).to.deep.equal(written(1));
    expect(fixture.ledger.memory.devices.get(RUN.deviceId)?.sessions?.map(({ number }) => number)).to.deep.equal([1]);
    expect((await open(2, aRecord()))?.outcome).to.equal("done");
    expect(await found()).to.deep.equal(written(2));
  });

  it("delay a session while the drive hangs, and are not written by an order that is overtaken", async () => {
    await open(1, aRecord());
    fixture.files.writes.shut();
    const before = fixture.files.writes.arrivals;
    const hanging = open(2, aRecord());
    await eventually(() => fixture.files.writes.arrivals > before);
    expect((await hanging)?.outcome).to.equal("pending");
    expect((await open(3, aRecord()))?.outcome, "while the write is in flight").to.equal("pending");
    fixture.files.writes.open();
    await eventually(() => device().inFlight === 0);
    expect((await open(3, aRecord()))?.outcome).to.equal("done");
    expect(await found()).to.deep.equal(written(3));
  });

  it("are erased with their run", async () => {
    await open(1, aRecord());
    expect((await fixture.eraser.erase(RUN, 2, stamp)).outcome.outcome).to.equal("done");
    expect(await found()).to.equal(undefined);
    expect(
      readFileSync(path)
        .subarray(RUN.offsetBytes, RUN.offsetBytes + MIB)
        .every((byte) => byte === 0),
    ).to.equal(true);
  });

  it("are found where the table points, and not in the bytes of a disk", async () => {
    await open(1, aRecord());
    const forged = { ...aRecord(), diskId: "disk-9", sessionNumber: 99 };
    await device().write(1, RUN.offsetBytes + RUN_UNIT_BYTES, recordWrite(forged, undefined).bytes, { fua: true });
    const { claims } = await fixture.sessions.claims.read(device(), 0, 10);
    expect(claims.map(({ record }) => record)).to.deep.equal([written(1)]);
  });
});
