import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DeviceFixture, LEADER, makeDeviceFile, runOf } from "../testing/device-fixture.js";

const SIZE = 16 * 4096;
const stamp = { ...LEADER, deviceGeneration: 0 };

describe("hanging system calls", () => {
  let fixture: DeviceFixture;
  const write = (session: number) => fixture.device("a").write(session, 0, Buffer.alloc(4096), { fua: false });
  const problem = (id = "a") => fixture.device(id).problem;
  const passed = (ms: number) => {
    fixture.aheadMs = ms;
  };

  beforeEach(async () => {
    fixture = new DeviceFixture([
      { id: "a", file: "a" },
      { id: "b", file: "b" },
    ]);
    makeDeviceFile(fixture.folder, "a", SIZE);
    makeDeviceFile(fixture.folder, "b", SIZE);
    await fixture.order("attach", "a", 1);
    await fixture.order("attach", "b", 2);
    await fixture.openSession("a", 1);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    fixture.files.opens.open();
    await fixture.stop();
  });

  it("a hanging write makes its device WARNING after 30 s, ERROR after 120 s, and ONLINE when it ends", async () => {
    fixture.files.writes.shut();
    const hanging = write(1);
    await eventually(() => fixture.files.writes.arrivals === 1);
    passed(29_000);
    expect(problem()).to.equal(undefined);
    passed(31_000);
    const message = "I/O on device a has not returned within 30000 ms";
    expect(problem()).to.deep.equal({ level: "WARNING", message });
    passed(60_000);
    expect(problem()?.message, "the same text while nothing else is known").to.equal(message);
    passed(121_000);
    expect(problem()?.level).to.equal("ERROR");
    expect(problem("b")).to.equal(undefined);
    fixture.files.writes.open();
    await hanging;
    expect(problem()).to.equal(undefined);
  });

  it("the oldest write counts: others that end change nothing", async () => {
    fixture.files.writes.shut();
    const hanging = write(1);
    await eventually(() => fixture.files.writes.arrivals === 1);
    passed(100_000);
    await fixture.device("a").read(1, 0, 4096);
    passed(121_000);
    expect(problem()?.level).to.equal("ERROR");
    fixture.files.writes.open();
    await hanging;
  });

  it("a hanging open makes its device WARNING and ERROR like a write", async () => {
    await fixture.order("detach", "b", 3);
    fixture.files.opens.shut();
    expect(await fixture.order("attach", "b", 4)).to.equal("pending");
    passed(31_000);
    expect(problem("b")).to.deep.equal({
      level: "WARNING",
      message: "the opening of device b has not returned within 30000 ms",
    });
    passed(121_000);
    expect(problem("b")?.level).to.equal("ERROR");
    fixture.files.opens.open();
    await eventually(() => problem("b") === undefined);
  });

  describe("are shown by a pending answer", () => {
    let hanging: Promise<void>;

    beforeEach(async () => {
      fixture.files.writes.shut();
      hanging = write(1);
      await eventually(() => fixture.files.writes.arrivals === 1);
      passed(45_000);
    });

    afterEach(async () => {
      fixture.files.writes.open();
      await hanging;
    });

    const expectPending = (answer: { outcome: string; message: string; waiting?: { forMs: number } } | undefined) => {
      expect(answer).to.include({ outcome: "pending" });
      expect(answer?.waiting).to.include({ inFlightOperations: 1 });
      expect(answer?.waiting?.forMs).to.be.within(45_000, 60_000);
      return expect(answer?.message);
    };

    it("of a detach", async () => {
      expectPending(await fixture.answerTo("detach", "a", 2)).to.match(/is draining, with 1 operations in flight/);
    });

    it("of a session to be opened, and of one to be ended", async () => {
      const wish = { number: 2, purpose: "disk" as const, diskId: "disk-1", holderHostId: "" };
      const [opened] = await fixture.sessions.open([runOf("a")], wish, stamp);
      expectPending(opened).to.equal("1 operations of sessions before 2 are in flight on device a");
      const [closed] = await fixture.sessions.close([runOf("a")], 1, stamp);
      expectPending(closed);
    });

    it("of an erase", async () => {
      const { outcome } = await fixture.eraser.erase(runOf("a"), 2, stamp);
      expectPending(outcome);
    });
  });
});
