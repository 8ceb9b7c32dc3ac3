import { ManualClock } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";
import { Prober } from "./prober.js";

const SIZE = 16 * 4096;

describe("health probes", () => {
  let fixture: DeviceFixture;
  let clock: ManualClock;
  let prober: Prober;

  beforeEach(async () => {
    fixture = new DeviceFixture([
      { id: "a", file: "a" },
      { id: "b", file: "b" },
      { id: "c", file: "c" },
    ]);
    for (const name of ["a", "b", "c"]) makeDeviceFile(fixture.folder, name, SIZE);
    for (const [index, id] of ["a", "b"].entries()) await fixture.order("attach", id, index + 1);
    await fixture.order("detach", "c", 3);
    clock = new ManualClock();
    prober = new Prober({
      driveErrors: undefined,
      devices: fixture.devices,
      clock,
      random: () => 0.99,
      limits: { warningAfterMs: 100, errorAfterMs: 1_000 },
    });
  });

  afterEach(() => fixture.stop());

  const healthOf = (id: string) => fixture.device(id).problem?.level ?? "ONLINE";

  it("keep an answering device ONLINE, read only held devices, and include the last block", async () => {
    void prober.look();
    await eventually(() => fixture.files.readPositions.length === 2);
    expect(fixture.files.readPositions).to.deep.equal([SIZE - 4096, SIZE - 4096]);
    expect(["a", "b", "c"].map(healthOf)).to.deep.equal(["ONLINE", "ONLINE", "ONLINE"]);
  });

  it("make a device WARNING, then ERROR, while its read hangs, and ONLINE once it ends", async () => {
    fixture.files.hang(fixture.device("a").config.path);
    void prober.look();
    await clock.advance(100);
    expect(healthOf("a")).to.equal("WARNING");
    // The reads are real, and the test's clock runs faster than they do.
    await eventually(() => healthOf("b") === "ONLINE");
    for (let round = 0; round < 10; round++) {
      await clock.advance(100);
      void prober.look();
    }
    expect(healthOf("a")).to.equal("ERROR");
    await eventually(() => healthOf("b") === "ONLINE");
    expect(fixture.device("a").problem?.message).to.match(/has not returned within 1000 ms/);
    expect(fixture.files.hangingReads, "one at a time, however long it takes").to.equal(1);
    fixture.files.unhang();
    await eventually(() => healthOf("a") === "ONLINE");
  });

  it("reach other devices while many hang", async () => {
    const ids = ["h1", "h2", "h3", "h4", "h5", "h6", "ok"];
    const many = new DeviceFixture(ids.map((id) => ({ id, file: id })));
    for (const [index, id] of ids.entries()) {
      makeDeviceFile(many.folder, id, SIZE);
      await many.order("attach", id, index + 1);
      if (id !== "ok") many.files.hang(many.device(id).config.path);
    }
    const probing = new Prober({
      driveErrors: undefined,
      devices: many.devices,
      clock,
      random: () => 0,
      limits: { warningAfterMs: 100, errorAfterMs: 1_000 },
    });
    void probing.look();
    await clock.advance(250);
    await eventually(() => many.files.readPositions.length === 1);
    many.files.unhang();
    await many.stop();
  });

  it("delay a detach while they hang, so that the descriptor is not closed under them", async () => {
    fixture.files.hang(fixture.device("a").config.path);
    void prober.look();
    await eventually(() => fixture.files.hangingReads === 1);
    expect(await fixture.order("detach", "a", 10)).to.equal("pending");
    expect(await fixture.openSession("b", 5), "another device").to.equal("done");
    fixture.files.unhang();
    await eventually(async () => (await fixture.order("detach", "a", 10)) === "already");
  });

  it("delay no session while they hang, because they change nothing", async () => {
    fixture.files.hang(fixture.device("a").config.path);
    void prober.look();
    await eventually(() => fixture.files.hangingReads === 1);
    expect(await fixture.openSession("a", 5)).to.equal("done");
    fixture.files.unhang();
  });

  it("make a device ERROR with the reason when a read fails", async () => {
    fixture.files.failNextRead = new Error("EIO: input/output error");
    void prober.look();
    await eventually(() => expect(["a", "b"].map(healthOf)).to.include("ERROR"));
    const failed = ["a", "b"].find((id) => healthOf(id) === "ERROR") ?? "";
    expect(fixture.device(failed).problem?.message).to.match(/reading block 15 .* failed: EIO/);
    void prober.look();
    await eventually(() => healthOf(failed) === "ONLINE");
  });
});
