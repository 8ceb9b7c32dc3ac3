import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DeviceId, silentLogger } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type DeviceLabel, LABEL_BYTES } from "../model/label.js";
import { withDevice } from "../model/memory.js";
import { DeviceFixture, LEADER, runOf } from "../testing/device-fixture.js";
import { FollowDrives } from "./follow-drives.js";

const SIZE = 4 * LABEL_BYTES;
const AREA = { offsetBytes: 0, sizeBytes: LABEL_BYTES };
const RUN = { offsetBytes: LABEL_BYTES, sizeBytes: LABEL_BYTES };
const stamp = { ...LEADER, deviceGeneration: 0 };

/** Devices a and b, each with a label and a run of a disk in session 2, and c, which was never in operation. */
describe("devices whose drives change places", () => {
  let fixture: DeviceFixture;
  let follow: FollowDrives;
  let changes: number;

  beforeEach(async () => {
    fixture = new DeviceFixture(["a", "b", "c"].map((id) => ({ id, file: id })));
    changes = 0;
    const { devices, labels, ledger } = fixture;
    follow = new FollowDrives({ devices, labels, ledger, log: silentLogger, onChange: () => changes++ });
    for (const id of ["a", "b", "c"]) writeFileSync(pathOf(id), Buffer.alloc(SIZE));
    for (const id of ["a", "b"]) {
      await fixture.order("attach", id, 1);
      const { sizeBytes, serialNumber, fileIdentity } = fixture.device(id).reported;
      const identity = { offsetBytes: 0, sizeBytes, blockSizeBytes: 4_096, serialNumber, fileIdentity };
      await fixture.order("attach", id, 1, identity);
      expect((await fixture.labels.write(runOf(id, AREA), 1, labelOf(id), stamp)).outcome.outcome).to.equal("done");
      const { labelId } = labelOf(id);
      fixture.ledger.remember(withDevice(fixture.ledger.memory, id as DeviceId, { labelId }));
      expect(await fixture.openSession(id, 2, undefined, undefined, RUN)).to.equal("done");
      await fixture.device(id).write(2, RUN.offsetBytes, Buffer.from(id), { fua: true });
    }
    await fixture.device("c").file.look();
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  const pathOf = (name: string): string => join(fixture.folder, name);
  const swap = (one: string, other: string): void => {
    renameSync(pathOf(one), pathOf("swapped"));
    renameSync(pathOf(other), pathOf(one));
    renameSync(pathOf("swapped"), pathOf(other));
  };

  function labelOf(id: string): DeviceLabel {
    const ids = { fleetId: "tablet-1", deviceId: id as DeviceId, labelId: id.repeat(32) };
    return { ...ids, sizeBytes: SIZE, sliceBytes: LABEL_BYTES, offsetBytes: 0 };
  }

  async function look(): Promise<void> {
    for (const file of fixture.devices.files()) await file.look();
    await follow.look();
  }

  /** Returns the first byte of a device's run, and the name of the file from which it came. */
  async function readAt(id: string): Promise<string> {
    const device = fixture.device(id);
    await eventually(() => expect(device.attached).to.equal(true));
    const byte = await device.read(2, RUN.offsetBytes, 1);
    return `${byte} at ${device.config.path.slice(-1)}`;
  }

  it("go on at the other's path each, in their sessions, and come back", async () => {
    swap("a", "b");
    await look();
    expect([await readAt("a"), await readAt("b")]).to.deep.equal(["a at b", "b at a"]);
    expect(changes).to.equal(1);
    await fixture.device("a").write(2, RUN.offsetBytes, Buffer.from("A"), { fua: true });
    expect(readFileSync(pathOf("b")).subarray(RUN.offsetBytes)[0]).to.equal("A".charCodeAt(0));
    await look();
    expect(changes, "where nothing has moved").to.equal(1);
    swap("a", "b");
    await look();
    expect([await readAt("a"), await readAt("b")]).to.deep.equal(["A at a", "b at b"]);
  });

  it("follow into the place of a device that is not in operation", async () => {
    rmSync(pathOf("c"));
    renameSync(pathOf("a"), pathOf("c"));
    await look();
    expect([await readAt("a"), await readAt("b")]).to.deep.equal(["a at c", "b at b"]);
    expect(fixture.device("c").config.path).to.equal(pathOf("a"));
    expect(fixture.device("c").attached).to.equal(false);
  });

  it("stay, and are not opened, while a copy of the drive is on the host", async () => {
    copyFileSync(pathOf("a"), pathOf("c"));
    swap("a", "b");
    await look();
    expect(["a", "b"].map((id) => fixture.device(id).config.path)).to.deep.equal([pathOf("b"), pathOf("a")]);
  });

  it("stay where only a copy of the drive is left", async () => {
    copyFileSync(pathOf("a"), pathOf("c"));
    rmSync(pathOf("a"));
    await look();
    expect(["a", "c"].map((id) => fixture.device(id).config.path)).to.deep.equal([pathOf("a"), pathOf("c")]);
  });

  it("stay while a write to the former file is in flight, and follow once it has ended", async () => {
    const before = fixture.files.writes.arrivals;
    fixture.files.writes.shut();
    const writing = fixture.device("a").write(2, RUN.offsetBytes, Buffer.from("A"), { fua: true });
    await eventually(() => expect(fixture.files.writes.arrivals).to.equal(before + 1));
    swap("a", "b");
    await look();
    expect(fixture.device("a").config.path).to.equal(pathOf("a"));
    fixture.files.writes.open();
    await writing;
    await look();
    expect([await readAt("a"), await readAt("b")]).to.deep.equal(["A at b", "b at a"]);
  });

  it("read nothing of the other's drive before they have followed", async () => {
    swap("a", "b");
    for (const file of fixture.devices.files()) await file.look();
    const error = await fixture.device("a").read(2, RUN.offsetBytes, 1).then(String, String);
    expect(error).to.include("device a has changed");
  });
});
