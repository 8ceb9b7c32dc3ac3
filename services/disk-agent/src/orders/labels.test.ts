import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DeviceId } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type DeviceLabel, LABEL_BYTES, labelWrites } from "../model/label.js";
import { withDevice } from "../model/memory.js";
import { forgetLabelSessions } from "../model/sessions.js";
import { DeviceFixture, LEADER, runOf } from "../testing/device-fixture.js";

const OFFSET = 8_192;
const SIZE = 4 * LABEL_BYTES;
const PATTERN = 0xa5;
const RUN = { offsetBytes: 0, sizeBytes: LABEL_BYTES };
const stamp = { ...LEADER, deviceGeneration: 0 };

function aLabel(digit: string): DeviceLabel {
  const ids = { fleetId: "tablet-1", deviceId: "a" as DeviceId, labelId: digit.repeat(32) };
  return { ...ids, sizeBytes: SIZE, sliceBytes: LABEL_BYTES, offsetBytes: OFFSET };
}

describe("the labels of an agent's devices", () => {
  let fixture: DeviceFixture;
  let path: string;
  const write = async (number: number, label?: DeviceLabel) => {
    const { outcome, label: found } = await fixture.labels.write(runOf("a", RUN), number, label, stamp);
    return found?.labelId ?? outcome.outcome;
  };
  const found = async () => {
    await fixture.labels.look();
    const label = fixture.labels.of(fixture.device("a"));
    return label?.state === "valid" ? label.label.labelId[0] : label?.state;
  };
  const remembered = () => {
    const { sessions = [], floor = 0 } = fixture.ledger.memory.devices.get(runOf("a").deviceId) ?? {};
    return [floor, ...sessions.map(({ number }) => number)];
  };
  /** Fills what is around the label. */
  const around = () => {
    const bytes = readFileSync(path);
    return Buffer.concat([bytes.subarray(0, OFFSET), bytes.subarray(OFFSET + LABEL_BYTES)]);
  };

  beforeEach(async () => {
    fixture = new DeviceFixture([{ id: "a", file: "a", offsetBytes: OFFSET, sizeBytes: SIZE }]);
    path = join(fixture.folder, "a");
    writeFileSync(path, Buffer.alloc(OFFSET + SIZE + OFFSET, PATTERN));
    await fixture.order("attach", "a", 1);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  it("are written and removed in sessions of their own, which are forgotten, and change nothing around them", async () => {
    expect(await found()).to.equal("none");
    expect(await write(5, aLabel("b"))).to.equal("b".repeat(32));
    expect(remembered()).to.deep.equal([5]);
    expect(await found()).to.equal("b");
    expect(await write(5, aLabel("c"))).to.equal("below_floor");
    expect(await write(6, aLabel("c"))).to.equal("c".repeat(32));
    expect(await found()).to.equal("c");
    expect(await write(7)).to.equal("done");
    expect(await found()).to.equal("none");
    expect(around().every((byte) => byte === PATTERN)).to.equal(true);
    expect(
      readFileSync(path)
        .subarray(OFFSET, OFFSET + LABEL_BYTES)
        .every((byte) => byte === 0),
    ).to.equal(true);
  });

  it("are found by the next life, and before a device is opened", async () => {
    await write(5, aLabel("b"));
    const next = new DeviceFixture(
      [{ id: "a", file: "a", offsetBytes: OFFSET, sizeBytes: SIZE }],
      undefined,
      {},
      { folder: fixture.folder, memory: fixture.ledger.memory },
    );
    const device = next.devices.get("a" as DeviceId);
    await device.file.look();
    await next.labels.look();
    expect(device.attached).to.equal(false);
    expect(next.labels.of(device)).to.deep.include({ state: "valid", label: aLabel("b") });
    await next.stop();
  });

  it("are told anew once an open has found another one, which another host of a shared drive has written", async () => {
    await write(5, aLabel("b"));
    const memory = withDevice(fixture.ledger.memory, "a" as DeviceId, { labelId: aLabel("b").labelId });
    const places = [{ id: "a", file: "a", offsetBytes: OFFSET, sizeBytes: SIZE }];
    await fixture.stop();
    fixture = new DeviceFixture(places, undefined, {}, { folder: fixture.folder, memory });
    await fixture.device("a").file.look();
    expect(await found()).to.equal("b");
    const bytes = readFileSync(path);
    for (const each of labelWrites(aLabel("c"), { state: "none" })) each.bytes.copy(bytes, OFFSET + each.offsetBytes);
    writeFileSync(path, bytes);
    expect(await fixture.order("attach", "a", 1)).to.equal("device_changed");
    await eventually(async () => expect(await found()).to.equal("c"));
  });

  describe("that another program overwrites in use", () => {
    const remember = () => {
      const { ledger } = fixture;
      ledger.remember(withDevice(ledger.memory, "a" as DeviceId, { labelId: aLabel("b").labelId }));
    };
    const overwrite = (change: (bytes: Buffer) => void) => {
      const bytes = readFileSync(path);
      change(bytes);
      writeFileSync(path, bytes);
    };
    const probed = async () => {
      await fixture.device("a").probe(0);
      const { attached, problem } = fixture.device("a");
      return { attached, says: problem?.message };
    };

    beforeEach(async () => {
      await write(5, aLabel("b"));
      remember();
      expect(await found()).to.equal("b");
      expect(await probed()).to.deep.equal({ attached: true, says: undefined });
    });

    it("are an error that is told at once and ends with the label's return, and the device goes on", async () => {
      const before = readFileSync(path);
      const changes = fixture.deviceChanges;
      overwrite((bytes) => bytes.fill(0, OFFSET, OFFSET + LABEL_BYTES));
      const { attached, says } = await probed();
      expect(attached).to.equal(true);
      expect(says).to.match(/^device a has lost its label: zeros in its place/);
      await probed();
      expect(fixture.deviceChanges - changes, "told once").to.equal(1);
      expect(await found()).to.equal("none");
      writeFileSync(path, before);
      expect(await probed()).to.deep.equal({ attached: true, says: undefined });
      expect(await found()).to.equal("b");
    });

    it("are no error once the registry expects no label", async () => {
      overwrite((bytes) => bytes.fill(0, OFFSET, OFFSET + LABEL_BYTES));
      expect((await probed()).says).to.match(/has lost its label/);
      await fixture.order("attach", "a", 2);
      expect(await probed()).to.deep.equal({ attached: true, says: undefined });
    });

    it("keep the device closed at its next open", async () => {
      overwrite((bytes) => bytes.fill(0, OFFSET, OFFSET + LABEL_BYTES));
      await fixture.order("detach", "a", 2);
      remember();
      fixture.device("a").attach();
      await eventually(() => expect(fixture.device("a").failure?.message).to.match(/has lost its label/));
      expect(fixture.device("a").attached).to.equal(false);
    });

    it("end the use of a device that carries another label", async () => {
      overwrite((bytes) => {
        for (const each of labelWrites(aLabel("c"), { state: "none" }))
          each.bytes.copy(bytes, OFFSET + each.offsetBytes);
      });
      const { attached, says } = await probed();
      expect(attached).to.equal(false);
      expect(says).to.match(/carries another label than it did/);
    });

    it("are a disk's bytes where a disk has all of the device", async () => {
      await fixture.openSession("a", 6);
      overwrite((bytes) => bytes.fill(0, OFFSET, OFFSET + LABEL_BYTES));
      expect(await probed()).to.deep.equal({ attached: true, says: undefined });
    });
  });

  it("survive a torn slot, and are damaged by two", async () => {
    await write(5, aLabel("b"));
    await write(6, aLabel("c"));
    const seenWith = async (offsets: readonly number[]) => {
      const bytes = readFileSync(path);
      for (const offset of offsets) bytes.fill(0xff, OFFSET + offset + 512, OFFSET + offset + 4_096);
      writeFileSync(path, bytes);
      await fixture.order("detach", "a", offsets.length * 2);
      await fixture.order("attach", "a", offsets.length * 2 + 1);
      return found();
    };
    expect(await seenWith([LABEL_BYTES / 2])).to.equal("c");
    expect(await seenWith([0, LABEL_BYTES / 2])).to.equal("damaged");
    expect(await write(7, aLabel("d"))).to.equal("d".repeat(32));
    expect(await found()).to.equal("d");
  });

  it("are read again once all bytes were erased, and are not told while an erase has them", async () => {
    await write(5, aLabel("b"));
    expect(await fixture.openSession("a", 6)).to.equal("done");
    const { outcome } = await fixture.eraser.erase(runOf("a"), 7, stamp);
    expect(outcome.outcome).to.equal("done");
    expect(await found(), "before the registry has closed the erase").to.equal("users");
    await fixture.sessions.close([runOf("a")], 7, stamp);
    expect(await found()).to.equal("none");
  });

  it("are told anew once the erase of a disk that had all bytes is forgotten", async () => {
    expect(await fixture.openSession("a", 5)).to.equal("done");
    expect(await found()).to.equal("users");
    expect((await fixture.eraser.erase(runOf("a"), 6, stamp)).outcome.outcome).to.equal("done");
    expect(await found()).to.equal("users");
    expect(fixture.labelChanges).to.equal(0);
    await fixture.sessions.close([runOf("a")], 6, stamp);
    expect(await found()).to.equal("none");
    expect(fixture.labelChanges).to.equal(1);
  });

  it("are not told of a device whose first bytes a disk has", async () => {
    await write(5, aLabel("b"));
    expect(await fixture.openSession("a", 6)).to.equal("done");
    expect(await found()).to.equal("users");
    expect(fixture.labels.isDisks(runOf("a", RUN))).to.equal(true);
  });

  it("are told of another drive in the place of one whose first bytes a disk has, also after a detach", async () => {
    await write(5, aLabel("b"));
    const { sizeBytes, serialNumber, fileIdentity } = fixture.device("a").reported;
    const identity = { offsetBytes: OFFSET, sizeBytes, blockSizeBytes: 4_096, serialNumber, fileIdentity };
    await fixture.order("attach", "a", 1, identity);
    await fixture.openSession("a", 6);
    await fixture.order("detach", "a", 2);
    expect(await found()).to.equal("users");
    writeFileSync(join(fixture.folder, "other"), readFileSync(path));
    renameSync(join(fixture.folder, "other"), path);
    await fixture.device("a").file.look();
    expect(await found()).to.equal("b");
  });

  it("wait for I/O of lower sessions on their bytes, and are overtaken by later sessions there", async () => {
    await fixture.openSession("a", 5, undefined, undefined, { offsetBytes: LABEL_BYTES, sizeBytes: LABEL_BYTES });
    fixture.files.writes.shut();
    const first = write(6, aLabel("b"));
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(await first, "while the drive hangs").to.equal("pending");
    expect(await write(7, aLabel("c")), "while a write is in flight").to.equal("pending");
    fixture.files.writes.open();
    await eventually(() => fixture.device("a").inFlight === 0);
    expect(await write(8, aLabel("d"))).to.equal("d".repeat(32));
    expect(await found()).to.equal("d");
    expect(remembered()).to.deep.equal([8, 5]);
  });

  it("are written once when the order is repeated in its session, also after the write has ended", async () => {
    fixture.files.writes.shut();
    expect(await write(6, aLabel("b"))).to.equal("pending");
    const { arrivals } = fixture.files.writes;
    expect(await write(6, aLabel("b"))).to.equal("pending");
    expect(fixture.files.writes.arrivals).to.equal(arrivals);
    fixture.files.writes.open();
    await eventually(async () => expect(await write(6, aLabel("b"))).to.equal("b".repeat(32)));
    expect(await found()).to.equal("b");
    expect(await write(6, aLabel("b"))).to.equal("b".repeat(32));
  });

  it("leave no session behind when the agent ends while it writes one", async () => {
    fixture.files.writes.shut();
    const writing = write(6, aLabel("b"));
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(remembered()).to.deep.equal([0, 6]);
    const { devices } = forgetLabelSessions(fixture.ledger.memory);
    expect(devices.get(runOf("a").deviceId)).to.deep.include({ sessions: [], floor: 6 });
    fixture.files.writes.open();
    await writing;
  });
});
