import { DEVICE_BYTES, EngineScene, noise, specOf } from "@diskmesh/disk-agent/testing";
import type { DeviceId, DiskId } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { count } from "./tally.js";

const DISK = "disk-1" as DiskId;
const ZEROS = Buffer.alloc(DEVICE_BYTES);
/** Rounds of a test. `ROUNDS` repeats the test. */
const TURNS = 10;

describe("the engines kernel and node", () => {
  it("in turns on one run, with a copy and an erase between, leave the bytes of the last writer", async () => {
    const options = { lastEngine: "node", whyNoBlockDevices: "the test uses sockets" } as const;
    const scene = new EngineScene("kernel", undefined, options);
    await scene.start();
    try {
      for (let turn = 0; turn < TURNS; turn++) {
        await takeTurns(scene, 10 * turn + 1);
        count("rounds of kernel, node, a copy and an erase");
      }
    } finally {
      await scene.stop();
    }
  });
});

/** Writes device `a` by both engines, copies it to `b`, and erases it, each in a session of its own. */
async function takeTurns(scene: EngineScene, session: number): Promise<void> {
  const [ofKernel, ofNode, ofCopy, ofErase] = [session, session + 1, session + 2, session + 3];
  const [one, other] = [noise(DEVICE_BYTES), noise(DEVICE_BYTES)];
  const byKernel = await scene.use(await scene.publish(DISK, ofKernel, ["a"]));
  expect((await byKernel.read(0, DEVICE_BYTES)).equals(ZEROS)).to.equal(true);
  await byKernel.write(0, one, { fua: true });
  await scene.open(DISK, ofNode, ["a"]);
  await byKernel.disconnect();
  const socket = await scene.exports.serve({ ...specOf(DISK, ofNode, ["a"]), exportKind: "NBD" });
  const byNode = await scene.connect(socket);
  expect((await byNode.read(0, DEVICE_BYTES)).equals(one)).to.equal(true);
  await byNode.write(0, other, { fua: true });
  expect((await byNode.read(0, DEVICE_BYTES)).equals(other)).to.equal(true);
  expect(scene.bytesOf("a").equals(other)).to.equal(true);
  await scene.open("disk-2", ofCopy, ["a", "b"]);
  const [source, target] = [scene.fixture.device("a"), scene.fixture.device("b")];
  await target.write(ofCopy, 0, await source.read(ofCopy, 0, DEVICE_BYTES), { fua: false });
  await target.flush(ofCopy, 0);
  expect(scene.bytesOf("b").equals(other)).to.equal(true);
  const stamp = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1, deviceGeneration: 0 };
  const run = { deviceId: "a" as DeviceId, offsetBytes: 0, sizeBytes: 0 };
  await eventually(async () => {
    const { outcome } = await scene.fixture.eraser.erase(run, ofErase, stamp);
    expect(outcome.outcome).to.equal("done");
  });
  expect(scene.bytesOf("a").equals(ZEROS)).to.equal(true);
}
