import { randomBytes, randomInt } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type DeviceId, type DiskId, NotFoundError, OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { MirrorAnswer } from "../model/mirror.js";
import type { NbdClient } from "../nbd/client.js";
import { DEVICE_BYTES, EngineScene, specOf } from "../testing/engine-scene.js";

const BLOCK_BYTES = 4_096;
const BLOCKS = DEVICE_BYTES / BLOCK_BYTES;
const DISK = "disk-1";
/** Session of the publication. Targets have later ones. */
const SESSION = 1;

/** Writes random blocks, one at a time, and knows which bytes the disk must have. */
class Writer {
  readonly bytes: Buffer;
  acknowledged = 0;
  #stopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(
    readonly client: NbdClient,
    bytes: Buffer,
  ) {
    this.bytes = Buffer.from(bytes);
  }

  start(): this {
    this.#running = this.#run();
    // A test that expects the error asks for it with stop().
    this.#running.catch(() => undefined);
    return this;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const offset = randomInt(BLOCKS) * BLOCK_BYTES;
      const data = randomInt(4) === 0 ? Buffer.alloc(BLOCK_BYTES) : randomBytes(BLOCK_BYTES);
      const isClear = data[0] === 0 && data[1] === 0;
      if (isClear) await this.client.writeZeroes(offset, BLOCK_BYTES, { fua: randomInt(2) === 0 });
      else await this.client.write(offset, data, { fua: randomInt(4) === 0 });
      (isClear ? Buffer.alloc(BLOCK_BYTES) : data).copy(this.bytes, offset);
      this.acknowledged += 1;
      if (randomInt(8) === 0) await this.client.flush();
    }
  }

  /** Rejects when a write fails. */
  get running(): Promise<void> {
    return this.#running;
  }

  /** Resolves once the last write is acknowledged. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** Resolves once nothing is acknowledged for a while. One answer may still have been on its way. */
  async heldBack(): Promise<void> {
    await eventually(async () => {
      const { acknowledged } = this;
      await sleep(200);
      expect(this.acknowledged).to.equal(acknowledged);
    });
  }

  /** Resolves once more writes are acknowledged. */
  async more(): Promise<void> {
    const { acknowledged } = this;
    await eventually(() => expect(this.acknowledged).to.be.above(acknowledged + 5));
  }
}

describe(`a disk that moves while it is in use on the node engine`, () => {
  let scene: EngineScene;
  let client: NbdClient;
  let data: Buffer;
  let writer: Writer | undefined;

  beforeEach(async () => {
    scene = new EngineScene("node");
    data = randomBytes(DEVICE_BYTES);
    writeFileSync(join(scene.fixture.folder, "a"), data);
    writeFileSync(join(scene.fixture.folder, "b"), randomBytes(DEVICE_BYTES));
    await scene.start();
    client = await scene.connect(await scene.publish(DISK, SESSION, ["a"]));
    writer = undefined;
  });
  afterEach(async () => {
    if (scene === undefined) return;
    scene.fixture.files.unhang();
    scene.fixture.files.writes.open();
    await scene.stop();
    await writer?.stop().catch(() => undefined);
  });

  const device = (id: string, sessionNumber?: number) => {
    const [extent] = specOf(DISK, SESSION, [id]).extents;
    if (extent === undefined) throw new Error("the spec lacks an extent");
    return { ...extent, ...(sessionNumber !== undefined && { sessionNumber }) };
  };
  const place = (id: string) => ({ deviceId: id as DeviceId });
  const order = (revision: number, extent: object, change: object = {}) =>
    scene.exports.serve({ ...specOf(DISK, SESSION, ["a"]), extents: [extent as never], revision, ...change });
  let rate = 0;
  const toB = (sessionNumber = 2, bytesPerSecond = 0) => {
    rate = bytesPerSecond;
    return { ...device("b", sessionNumber), bytesPerSecond };
  };
  const mirror = async (revision = 1, bytesPerSecond = 0, change: object = {}) => {
    await scene.open(DISK, 2, ["b"]);
    await order(revision, { ...device("a"), target: toB(2, bytesPerSecond) }, change);
  };
  const look = (revision = 1, source = "a", target = "b") =>
    scene.exports.askMirror(
      { diskId: DISK as DiskId, sessionNumber: SESSION, revision },
      { source: { deviceId: source as DeviceId }, target: { deviceId: target as DeviceId } },
      rate,
    );
  const until = (is: MirrorAnswer["is"], revision = 1) =>
    eventually(() => {
      const { answer } = look(revision);
      expect(answer.is).to.equal(is);
      return answer;
    });
  /** Takes a device from its session and overwrites it, as the registry does with a device that is released. */
  const release = async (id: string, sessionNumber: number) => {
    await scene.open(DISK, sessionNumber, [id]);
    writeFileSync(join(scene.fixture.folder, id), Buffer.alloc(DEVICE_BYTES, 0xee));
  };
  const holds = async (bytes: Buffer) => expect((await client.read(0, DEVICE_BYTES)).equals(bytes)).to.equal(true);

  it("has every acknowledged write on the target, and none of the source's bytes after its release", async () => {
    writer = new Writer(client, data).start();
    await mirror(1, 4 * DEVICE_BYTES);
    await until("equal");
    expect(look().copiedBytes).to.equal(DEVICE_BYTES);
    await writer.more();
    await order(2, device("b", 2));
    await release("a", 3);
    await writer.more();
    await writer.stop();
    await holds(writer.bytes);
    expect(scene.bytesOf("b").equals(writer.bytes)).to.equal(true);
    expect(scene.bytesOf("a").every((byte) => byte === 0xee)).to.equal(true);
    await rejection(
      Promise.resolve().then(() => look(2)),
      NotFoundError,
      "does not mirror",
    );
  });

  it("moves on at once to another device", async () => {
    writer = new Writer(client, data).start();
    await mirror();
    await until("equal");
    await scene.open(DISK, 3, ["c"]);
    await order(2, { ...device("b", 2), target: { ...device("c", 3), bytesPerSecond: 0 } });
    await release("a", 4);
    await eventually(() => expect(look(2, "b", "c").answer.is).to.equal("equal"));
    await order(3, device("c", 3));
    await release("b", 5);
    await writer.more();
    await writer.stop();
    await holds(writer.bytes);
  });

  it("is split while it is used, moves part by part, and leaves its run with the last of them", async () => {
    const half = DEVICE_BYTES / 2;
    const whole = device("a");
    const pieces = [
      { ...whole, sizeBytes: half },
      { ...whole, sizeBytes: half, offsetBytes: half, skipBytes: half },
    ] as const;
    const serveAs = (revision: number, extents: readonly object[]) =>
      order(revision, whole, { extents: extents as never });
    const on = (id: string, sessionNumber: number) => ({ ...device(id, sessionNumber), sizeBytes: half });
    writer = new Writer(client, data).start();
    await serveAs(1, pieces);
    await writer.more();
    await scene.open(DISK, 2, ["b"]);
    await serveAs(2, [{ ...pieces[0], target: { ...on("b", 2), bytesPerSecond: 0 } }, pieces[1]]);
    await until("equal", 2);
    await serveAs(3, [on("b", 2), pieces[1]]);
    await writer.more();
    await scene.open(DISK, 3, ["c"]);
    await serveAs(4, [on("b", 2), { ...pieces[1], target: { ...on("c", 3), bytesPerSecond: 0 } }]);
    const second = { source: { ...place("a"), offsetBytes: half }, target: place("c") };
    const asked = { diskId: DISK as DiskId, sessionNumber: SESSION, revision: 4 };
    await eventually(() => expect(scene.exports.askMirror(asked, second, 0).answer.is).to.equal("equal"));
    await serveAs(5, [on("b", 2), on("c", 3)]);
    await release("a", 4);
    await writer.more();
    await writer.stop();
    await holds(writer.bytes);
    expect(scene.bytesOf("b").subarray(0, half).equals(writer.bytes.subarray(0, half))).to.equal(true);
    expect(scene.bytesOf("a").every((byte) => byte === 0xee)).to.equal(true);
  });

  it("has overlapping writes in one order on both devices", async () => {
    await mirror();
    await until("equal");
    const other = await scene.connect(await order(2, { ...device("a"), target: toB() }));
    const { writes } = scene.fixture.files;
    const before = writes.arrivals;
    writes.shut();
    const both = [client, other].map((each) => each.write(BLOCK_BYTES, randomBytes(2 * BLOCK_BYTES)));
    await eventually(() => expect(writes.arrivals).to.equal(before + 2));
    await sleep(100);
    expect(writes.arrivals, "one of the writes, on two devices").to.equal(before + 2);
    writes.open();
    await Promise.all(both);
    expect(scene.bytesOf("a").equals(scene.bytesOf("b"))).to.equal(true);
  });

  it("copies what was written before the mirror began, also by a write that was under way", async () => {
    scene.fixture.files.writes.shut();
    const late = randomBytes(BLOCK_BYTES);
    const write = client.write(8 * BLOCK_BYTES, late);
    await eventually(() => expect(scene.fixture.files.writes.arrivals).to.be.above(0));
    await mirror();
    await sleep(100);
    scene.fixture.files.writes.open();
    await write;
    await until("equal");
    late.copy(data, 8 * BLOCK_BYTES);
    expect(scene.bytesOf("b").equals(data)).to.equal(true);
  });

  it("goes on without a target that fails before EQUAL, and never becomes EQUAL again", async () => {
    writer = new Writer(client, data).start();
    await mirror(1, 4 * DEVICE_BYTES);
    await scene.open(DISK, 3, ["b"]);
    expect(await until("failed")).to.deep.include({ at: "target" });
    await writer.more();
    await sleep(300);
    expect(look().answer.is).to.equal("failed");
    await order(2, device("a"));
    await writer.more();
    await writer.stop();
    await holds(writer.bytes);
  });

  it("acknowledges nothing once the target has failed after EQUAL, until the source counts", async () => {
    await mirror();
    await until("equal");
    writer = new Writer(client, data).start();
    await writer.more();
    await scene.open(DISK, 3, ["b"]);
    expect(await until("failed")).to.deep.include({ at: "target" });
    const read = client.read(0, BLOCK_BYTES);
    expect(await Promise.race([read.then(() => "read"), sleep(300, "held")])).to.equal("held");
    await writer.heldBack();
    await order(2, device("a"));
    await writer.more();
    await writer.stop();
    await read;
    await holds(writer.bytes);
    expect(scene.bytesOf("a").equals(writer.bytes)).to.equal(true);
  });

  it("fails what it holds back after the I/O timeout, and goes on once a copy counts", async () => {
    await mirror();
    await until("equal");
    await scene.open(DISK, 3, ["b"]);
    const first = await rejection(client.write(0, data.subarray(0, BLOCK_BYTES)));
    expect(first).to.have.property("code", "EIO");
    const held = client.read(0, BLOCK_BYTES);
    await order(2, device("a"));
    expect((await held).length).to.equal(BLOCK_BYTES);
    await holds(data);
  });

  it("goes on with the target when the source has failed after EQUAL", async () => {
    await mirror();
    await until("equal");
    writer = new Writer(client, data).start();
    await writer.more();
    scene.fixture.files.failNextRead = Object.assign(new Error("bad sector"), { code: "EIO" });
    const read = client.read(0, BLOCK_BYTES);
    expect(await until("failed")).to.deep.include({ at: "source" });
    await writer.heldBack();
    await order(2, device("b", 2));
    await release("a", 3);
    expect((await read).length).to.equal(BLOCK_BYTES);
    await writer.more();
    await writer.stop();
    await holds(writer.bytes);
  });

  it("answers with the target alone what a hanging source holds up at the cut-over", async () => {
    await mirror();
    await until("equal");
    scene.fixture.files.hang(join(scene.fixture.folder, "a"));
    const read = client.read(0, DEVICE_BYTES);
    await eventually(() => expect(scene.fixture.files.hangingReads).to.be.above(0));
    await order(2, device("b", 2));
    expect((await read).equals(data)).to.equal(true);
  });

  it("fails before EQUAL without a device at fault when the source cannot be read", async () => {
    scene.fixture.files.failNextRead = Object.assign(new Error("bad sector"), { code: "EIO" });
    await mirror();
    const answer = await until("failed");
    expect(answer).to.have.property("at", undefined);
    expect(answer)
      .to.have.property("message")
      .that.matches(/bad sector/);
    await holds(data);
  });

  it("goes on without a target whose writes hang, also in the range that is being copied", async () => {
    scene.fixture.files.hangWrites(join(scene.fixture.folder, "b"));
    await mirror();
    const late = randomBytes(BLOCK_BYTES);
    await client.write(0, late);
    expect(look().answer).to.deep.include({ is: "failed", at: "target" });
    late.copy(data, 0);
    await holds(data);
  });

  it("moves a read-only disk", async () => {
    await scene.open(DISK, 10, ["a"]);
    const spec = { ...specOf(DISK, 10, ["a"]), readOnly: true as const };
    client = await scene.connect(await scene.exports.serve(spec));
    await scene.open(DISK, 11, ["b"]);
    await scene.exports.serve({ ...spec, extents: [{ ...device("a"), target: toB(11) }], revision: 1 });
    const asked = { diskId: DISK as DiskId, sessionNumber: 10, revision: 1 };
    await eventually(() =>
      expect(scene.exports.askMirror(asked, { source: device("a"), target: device("b") }, 0).answer.is).to.equal(
        "equal",
      ),
    );
    await scene.exports.serve({ ...spec, extents: [device("b", 11)], revision: 2 });
    await release("a", 12);
    await holds(data);
  });

  it("ends at once with its export while requests are held back", async () => {
    await mirror();
    await until("equal");
    await scene.open(DISK, 3, ["b"]);
    const write = client.write(0, data.subarray(0, BLOCK_BYTES)).catch(() => "failed");
    await until("failed");
    const startedMs = performance.now();
    await scene.exports.end(DISK as DiskId, SESSION);
    expect(performance.now() - startedMs).to.be.below(4_000);
    expect(await write).to.equal("failed");
  });

  it("copies at the rate of the last question", async () => {
    await mirror(1, 1_024);
    expect(look().answer.is).to.equal("copying");
    rate = 0;
    await until("equal");
  });

  it("keeps the mirror when a later revision changes its rate alone", async () => {
    await mirror(1, 64 * 1024);
    expect(look().answer.is).to.equal("copying");
    await order(2, { ...device("a"), target: toB(2, 0) });
    const { copiedBytes } = look(2);
    expect(copiedBytes).to.be.above(0);
    await until("equal", 2);
  });

  it("answers OUTDATED for another session or a revision that it has not reached", async () => {
    await mirror();
    await rejection(
      Promise.resolve().then(() => look(2)),
      OutdatedError,
      "revision 2",
    );
    const other = { diskId: DISK as DiskId, sessionNumber: 2, revision: 1 };
    const ask = () => scene.exports.askMirror(other, { source: device("a"), target: device("b") }, 0);
    await rejection(Promise.resolve().then(ask), OutdatedError);
  });

  it("is not served by the agent's next life before a later revision says which device counts", async () => {
    await mirror();
    await until("equal");
    scene = new EngineScene("node", await scene.leave());
    await scene.start();
    expect(scene.exports.list()).to.deep.equal([]);
    await rejection(order(1, { ...device("a"), target: toB() }), OutdatedError, "order a later revision");
    expect(scene.exports.find(DISK as DiskId)).to.equal(undefined);
    client = await scene.connect(await order(2, device("b", 2)));
    await holds(data);
  });

  it("goes on in a later session where a drain has ended it, with all writes in between", async () => {
    await mirror(1, 64 * 1024);
    writer = new Writer(client, data).start();
    await eventually(() => expect(look().copiedBytes).to.be.above(0));
    await writer.more();
    await writer.stop();
    const [ended] = await scene.exports.drain(DISK as DiskId, SESSION, () => {});
    const { copiedBytes = 0 } = ended ?? {};
    expect(ended).to.include({ deviceId: "b", sessionNumber: 2 });
    expect(copiedBytes).to.be.within(1, DEVICE_BYTES - 1);
    const firstOf = (id: string) => scene.bytesOf(id).subarray(0, copiedBytes);
    expect(firstOf("a").equals(firstOf("b"))).to.equal(true);
    await scene.exports.end(DISK as DiskId, SESSION);
    await scene.open(DISK, 3, ["a"]);
    await scene.open(DISK, 4, ["b"]);
    const target = { ...device("b", 4), bytesPerSecond: 1, copiedBytes };
    const spec = { ...specOf(DISK, 3, ["a"]), extents: [{ ...device("a"), target }] };
    client = await scene.connect(await scene.exports.serve(spec));
    const asked = { diskId: DISK as DiskId, sessionNumber: 3, revision: 0 };
    const ask = (bytesPerSecond: number) =>
      scene.exports.askMirror(asked, { source: device("a"), target: device("b") }, bytesPerSecond);
    expect(ask(1).copiedBytes).to.be.at.least(copiedBytes);
    writer = new Writer(client, writer.bytes).start();
    await eventually(() => expect(ask(0).answer.is).to.equal("equal"));
    await writer.more();
    await writer.stop();
    expect(scene.bytesOf("b").equals(writer.bytes)).to.equal(true);
  });

  it("is drained below a write that is in flight, which one device may lack", async () => {
    await mirror();
    await until("equal");
    const { writes } = scene.fixture.files;
    const { arrivals } = writes;
    writes.shut();
    const writing = client.write(3 * BLOCK_BYTES, randomBytes(BLOCK_BYTES));
    await eventually(() => expect(writes.arrivals).to.equal(arrivals + 2));
    const [ended] = await scene.exports.drain(DISK as DiskId, SESSION, () => {});
    expect(ended?.copiedBytes).to.equal(3 * BLOCK_BYTES);
    await rejection(client.write(0, randomBytes(BLOCK_BYTES)));
    writes.open();
    await writing;
  });

  it("tells nothing of what a drain has ended when a flush fails", async () => {
    await mirror();
    await until("equal");
    scene.fixture.files.failNextSync = Object.assign(new Error("the drive is gone"), { code: "EIO" });
    expect(await scene.exports.drain(DISK as DiskId, SESSION, () => {})).to.deep.equal([]);
  });

  it("is ended by a fence of the device that counts", async () => {
    await mirror();
    await until("equal");
    writer = new Writer(client, data).start();
    await writer.more();
    await order(2, device("b", 2));
    await writer.more();
    await scene.open(DISK, 3, ["b"]);
    await rejection(writer.running);
    const fenced = scene.bytesOf("b");
    await sleep(200);
    expect(scene.bytesOf("b").equals(fenced)).to.equal(true);
  });
});
