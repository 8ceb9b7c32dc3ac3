import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { decodeCache } from "../cache/cache-contents.js";
import { latestText } from "../cache/slots.js";
import type { Run } from "../model/runs.js";
import { DeviceFixture, LEADER, runOf } from "../testing/device-fixture.js";

const BLOCK = 4096;
const SIZE = 16 * BLOCK;
const stamp = { ...LEADER, deviceGeneration: 0 };
const run = (first: number, blocks: number): Run => ({ offsetBytes: first * BLOCK, sizeBytes: blocks * BLOCK });

describe("runs of a device", () => {
  let fixture: DeviceFixture;
  const open = (number: number, range: Run, holder?: string) =>
    fixture.openSession("a", number, holder, undefined, range);
  const write = (number: number, block: number, byte: number, blocks = 1) =>
    fixture.device("a").write(number, block * BLOCK, Buffer.alloc(blocks * BLOCK, byte), { fua: true });
  const nameOf = (promise: Promise<unknown>) =>
    promise.then(
      () => "succeeded",
      (error: Error) => error.name,
    );
  /** First byte of each block. */
  const blocks = () => {
    const bytes = readFileSync(join(fixture.folder, "a"));
    return Array.from({ length: SIZE / BLOCK }, (_, block) => bytes[block * BLOCK]).join("");
  };
  const remembered = () => {
    const text = latestText(readFileSync(join(fixture.folder, "cache.json"), "utf8"));
    const { sessions = [], floor = 0 } =
      decodeCache(text.slice(text.indexOf("{")), fixture.ledger.memory.hostId).devices.get(runOf("a").deviceId) ?? {};
    return [floor, ...sessions.map(({ number, ended }) => (ended ? -number : number))];
  };

  beforeEach(async () => {
    fixture = await DeviceFixture.withAttached("a", SIZE);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  it("have sessions of their own, which allow I/O inside them alone", async () => {
    expect(await open(1, run(0, 4))).to.equal("done");
    expect(await open(2, run(4, 4))).to.equal("done");
    expect(await open(1, run(0, 4))).to.equal("already");
    await write(1, 0, 1, 4);
    await write(2, 4, 2, 4);
    expect(await nameOf(write(1, 3, 9, 2))).to.equal("InvalidArgumentError");
    expect(await nameOf(write(1, 4, 9))).to.equal("OutdatedError");
    expect(await nameOf(write(2, 3, 9))).to.equal("UnavailableError");
    expect(await nameOf(write(2, 8, 9))).to.equal("UnavailableError");
    expect(blocks()).to.equal("1111222200000000");
  });

  it("with a write in flight delay grants of their bytes alone, and refuse the writer then", async () => {
    await open(1, run(0, 4));
    fixture.files.writes.shut();
    const inFlight = write(1, 0, 1);
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(await open(2, run(4, 4)), "beside it").to.equal("done");
    expect(await open(3, run(3, 1)), "on its bytes").to.equal("pending");
    expect(await nameOf(write(1, 0, 9)), "the writer").to.equal("OutdatedError");
    fixture.files.writes.open();
    await inFlight;
    expect(await open(3, run(3, 1))).to.equal("done");
    expect(remembered()).to.deep.equal([0, -1, 3, 2]);
  });

  it("grow without a new number, once I/O of lower sessions has left the new bytes", async () => {
    await open(1, run(4, 4));
    await open(2, run(0, 4));
    fixture.files.writes.shut();
    const inFlight = write(1, 4, 1);
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(await open(2, run(0, 8))).to.equal("pending");
    expect(await nameOf(write(2, 4, 9)), "before the grant").to.equal("UnavailableError");
    fixture.files.writes.open();
    await inFlight;
    expect(await open(2, run(0, 8))).to.equal("done");
    await write(2, 3, 2, 2);
    expect(await open(2, run(0, 4)), "a late order").to.equal("already");
    await write(2, 7, 2);
    expect(blocks()).to.equal("0002200200000000");
  });

  it("are erased alone, side by side, and forgotten when the erase is closed", async () => {
    await open(1, run(0, 16));
    await write(1, 0, 9, 16);
    const erase = async (number: number, range: Run) =>
      (await fixture.eraser.erase(runOf("a", range), number, stamp)).outcome;
    const both = await Promise.all([erase(2, run(2, 4)), erase(3, run(8, 4))]);
    expect(both.map(({ outcome }) => outcome)).to.deep.equal(["done", "done"]);
    expect(blocks()).to.equal("9900009900009999");
    const [closed] = await fixture.sessions.close([runOf("a", run(8, 4))], 3, stamp);
    expect(closed?.outcome).to.equal("done");
    expect(remembered()).to.deep.equal([3, -1, 2, -1, -1]);
    const [late] = await fixture.sessions.open(
      [runOf("a", run(8, 4))],
      { number: 3, purpose: "erase", diskId: "", holderHostId: "" },
      stamp,
    );
    expect(late).to.deep.include({ outcome: "below_floor", floor: 3, ...run(8, 4) });
    expect(await open(4, run(8, 4))).to.equal("done");
  });

  it("have one connection each", async () => {
    await open(1, run(0, 4));
    await open(2, run(4, 4));
    const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
    fixture.device("a").granted.replaceConnection(0, first);
    fixture.device("a").granted.replaceConnection(4 * BLOCK, second);
    expect([first, second].map(({ signal }) => signal.aborted)).to.deep.equal([false, false]);
    fixture.device("a").granted.replaceConnection(4 * BLOCK, third);
    expect([first, second].map(({ signal }) => signal.aborted)).to.deep.equal([false, true]);
  });

  it("keep their grants over a restart", async () => {
    await open(1, run(0, 4));
    await open(2, run(4, 4));
    await fixture.stop();
    const { folder, ledger } = fixture;
    fixture = new DeviceFixture([{ id: "a", file: "a" }], BLOCK, {}, { folder, memory: ledger.memory });
    await fixture.devices.start({ waitMs: 10_000 });
    await write(1, 0, 1);
    await write(2, 4, 2);
    expect(blocks()).to.equal("1000200000000000");
  });
});
