import { DiskIo } from "@diskmesh/api/registry";
import type { DiskId, HostId } from "@diskmesh/domain";
import { expect } from "chai";
import { IoMeter } from "./io-meter.js";

const HOST = "h1" as HostId;
const io = (reads: number) => ({ reads, readBytes: reads * 10, writes: reads * 2, writtenBytes: reads * 20 });

describe("the sum of the agents' I/O", () => {
  it("adds what each host did since its last report", () => {
    const meter = new IoMeter(() => 0);
    meter.hear(HOST, "boot-1", io(100));
    expect(meter.totals).to.deep.equal(io(0));
    meter.hear(HOST, "boot-1", io(103));
    meter.hear("h2" as HostId, "boot-1", io(7));
    meter.hear("h2" as HostId, "boot-1", io(9));
    expect(meter.totals).to.deep.equal(io(5));
  });

  it("names the disks whose I/O begins to stand, or goes on", () => {
    const meter = new IoMeter(() => 0);
    const hear = (ageMs: number | undefined) => {
      const open = { requests: 1, oldestAtMs: 0, heardAtMs: ageMs ?? 0, throttled: 0 };
      const none = { waitsForDevice: undefined, waitsForBlockDevice: "" };
      const disk = { io: DiskIo.fromPartial({}), ...(ageMs !== undefined && { open: { ...open, ...none } }) };
      return meter.hear(HOST, "boot-1", io(0), new Map([["x" as DiskId, disk]]));
    };
    expect([undefined, 4_999, 5_000, 7_000, undefined].map(hear)).to.deep.equal([[], [], ["x"], [], ["x"]]);
    hear(9_000);
    expect(meter.hear(HOST, "boot-1", io(0))).to.deep.equal(["x"]);
  });

  it("adds all I/O of a new start of an agent, and never subtracts", () => {
    const meter = new IoMeter(() => 0);
    meter.hear(HOST, "boot-1", io(100));
    meter.hear(HOST, "boot-2", io(4));
    expect(meter.totals).to.deep.equal(io(4));
    meter.hear(HOST, "boot-2", io(3));
    expect(meter.totals).to.deep.equal(io(4));
    meter.forget(HOST);
    meter.hear(HOST, "boot-2", io(50));
    expect(meter.totals).to.deep.equal(io(4));
  });

  it("begins anew where a sum would be larger than a client can decode", () => {
    let nowMs = 1;
    const meter = new IoMeter(() => nowMs);
    const most = 2 ** 48;
    meter.hear(HOST, "boot-1", io(0));
    meter.hear(HOST, "boot-1", io(most));
    expect([meter.totals, meter.sinceMs]).to.deep.equal([io(most), 1]);
    nowMs = 2;
    meter.hear(HOST, "boot-2", io(most));
    expect([meter.totals, meter.sinceMs]).to.deep.equal([io(0), 2]);
    meter.hear(HOST, "boot-2", io(most + 7));
    expect([meter.totals, meter.sinceMs]).to.deep.equal([io(7), 2]);
  });
});
