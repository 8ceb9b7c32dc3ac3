import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { ExportSpec } from "../model/memory.js";
import type { NbdRequestError } from "../nbd/client.js";
import { DEVICE_BYTES, EngineScene, noise, specOf } from "../testing/engine-scene.js";

const BLOCK_BYTES = 4_096;
const NONE = { readIops: 0, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };

const codeOf = async (refused: Promise<unknown>): Promise<string> =>
  ((await rejection(refused)) as NbdRequestError).code;

async function durationMs(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

describe(`limits of an export on the node engine`, () => {
  let scene: EngineScene;

  beforeEach(async () => {
    scene = new EngineScene("node");
    await scene.start();
  });
  afterEach(() => scene?.stop());

  const serve = async (spec: ExportSpec) => scene.connect(await scene.exports.serve(spec));

  it("delay I/O, change on an open connection, and end with the export", async () => {
    const spec = specOf("disk-1", 1, ["a"]);
    await scene.open("disk-1", 1, ["a"]);
    const client = await serve({ ...spec, limits: { ...NONE, writeIops: 20, readIops: 1 } });
    const write = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, at) => client.write(at * BLOCK_BYTES, noise(BLOCK_BYTES))));
    expect(await durationMs(() => write(11))).to.be.above(400);
    // Takes 20 s with the first limits.
    const reads = Array.from({ length: 20 }, () => client.read(0, BLOCK_BYTES));
    await scene.exports.serve({ ...spec, limits: { ...NONE, readIops: 1_000 }, revision: 1 });
    expect(await durationMs(() => Promise.all(reads))).to.be.below(5_000);
    await scene.exports.serve({ ...spec, limits: { ...NONE, writeIops: 1 }, revision: 2 });
    const late = write(20).catch(() => "ended");
    // The answer shows that the server has read the writes.
    await client.flush();
    expect(await durationMs(() => scene.exports.end("disk-1" as never, 1))).to.be.below(4_000);
    await late;
  });

  it("release requests that wait for a former limit, before the change is confirmed", async () => {
    const spec = specOf("disk-1", 1, ["a"]);
    await scene.open("disk-1", 1, ["a"]);
    const client = await serve({ ...spec, limits: { ...NONE, readBytesPerSecond: 50 } });
    const reads = Array.from({ length: 4 }, () => client.read(0, 16 * BLOCK_BYTES));
    // The answer shows that the server has the reads, all but one of which wait.
    await client.flush();
    await scene.exports.serve({ ...spec, limits: { ...NONE, readBytesPerSecond: 10 * DEVICE_BYTES }, revision: 1 });
    // Each takes 22 min with the first limit.
    expect(await durationMs(() => Promise.all(reads))).to.be.below(30_000);
    await scene.exports.serve({ ...spec, limits: { ...NONE, readBytesPerSecond: 50 }, revision: 2 });
    const late = Array.from({ length: 4 }, () => client.read(0, 16 * BLOCK_BYTES));
    await client.flush();
    await scene.exports.serve({ ...spec, revision: 3 });
    expect(await durationMs(() => Promise.all(late))).to.be.below(30_000);
  });
});

describe("changes of an export that is served", () => {
  let scene: EngineScene;

  beforeEach(async () => {
    scene = new EngineScene("node");
    await scene.start();
  });
  afterEach(() => scene?.stop());

  const serve = async (spec: ExportSpec) => scene.connect(await scene.exports.serve(spec));

  it("knows its open requests, and whether limits or a device hold up the oldest one", async () => {
    const spec = specOf("disk-1", 1, ["a", "b"]);
    await scene.open("disk-1", 1, ["a", "b"]);
    const client = await serve({ ...spec, limits: { ...NONE, readIops: 1 } });
    const queue = () => scene.exports.served()[0]?.queue;
    expect(queue()).to.deep.equal({ openRequests: 0, oldestAgeMs: 0, throttledRequests: 0 });
    const reads = Array.from({ length: 4 }, () => client.read(0, BLOCK_BYTES));
    // The answer shows that the server has the reads.
    await client.flush();
    expect(queue()?.waitsForDeviceId).to.equal(undefined);
    expect(queue()?.throttledRequests).to.equal(queue()?.openRequests).and.to.be.within(1, 3);
    scene.fixture.files.writes.shut();
    const write = client.write(DEVICE_BYTES, noise(BLOCK_BYTES));
    await eventually(() => expect(scene.fixture.files.writes.arrivals).to.equal(1));
    expect(queue()?.waitsForDeviceId).to.equal(undefined);
    await scene.exports.serve({ ...spec, revision: 1 });
    await Promise.all(reads);
    await eventually(() => expect(queue()).to.include({ openRequests: 1, waitsForDeviceId: "b" }));
    expect(Number.isInteger(queue()?.oldestAgeMs)).to.equal(true);
    scene.fixture.files.writes.open();
    await write;
    expect(queue()).to.deep.equal({ openRequests: 0, oldestAgeMs: 0, throttledRequests: 0 });
  });

  it("a late order of a lower revision changes nothing", async () => {
    const spec = specOf("disk-1", 1, ["a"]);
    await scene.open("disk-1", 1, ["a"]);
    const client = await serve({ ...spec, revision: 2 });
    await scene.exports.serve({ ...spec, limits: { ...NONE, readIops: 1 }, revision: 1 });
    expect(await durationMs(() => Promise.all(Array.from({ length: 5 }, () => client.read(0, 512))))).to.be.below(
      1_000,
    );
  });

  it("an appended device -> new connections have the larger size, earlier ones go on, and a fence ends both", async () => {
    await scene.open("disk-1", 1, ["a"]);
    const first = await serve(specOf("disk-1", 1, ["a"]));
    const data = noise(2 * DEVICE_BYTES);
    await first.write(0, data.subarray(0, DEVICE_BYTES));
    await scene.open("disk-1", 2, ["b"]);
    const [a, b] = specOf("disk-1", 1, ["a", "b"]).extents;
    if (a === undefined || b === undefined) throw new Error("the spec lacks extents");
    const grown = { ...specOf("disk-1", 1, ["a"]), extents: [a, { ...b, sessionNumber: 2 }], revision: 1 };
    const second = await serve(grown);
    expect([first.sizeBytes, second.sizeBytes]).to.deep.equal([DEVICE_BYTES, 2 * DEVICE_BYTES]);
    await second.write(DEVICE_BYTES, data.subarray(DEVICE_BYTES));
    expect((await second.read(0, 2 * DEVICE_BYTES)).equals(data)).to.equal(true);
    expect((await first.read(0, DEVICE_BYTES)).equals(data.subarray(0, DEVICE_BYTES))).to.equal(true);
    await scene.open("disk-1", 3, ["a", "b"]);
    for (const client of [first, second])
      expect(await codeOf(client.write(0, noise(BLOCK_BYTES)))).to.equal("ESHUTDOWN");
    expect(await codeOf(second.write(DEVICE_BYTES, noise(BLOCK_BYTES)))).to.equal("ESHUTDOWN");
    expect(scene.bytesOf("b").equals(data.subarray(DEVICE_BYTES))).to.equal(true);
  });

  it("a read-only export refuses writes, and says so", async () => {
    await scene.open("disk-1", 1, ["a"]);
    const client = await serve({ ...specOf("disk-1", 1, ["a"]), readOnly: true });
    expect(client.isReadOnly).to.equal(true);
    expect(await codeOf(client.write(0, noise(BLOCK_BYTES)))).to.equal("EPERM");
    expect(scene.bytesOf("a").every((byte) => byte === 0)).to.equal(true);
  });
});
