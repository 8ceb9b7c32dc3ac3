import { EngineScene, noise, specOf } from "@diskmesh/disk-agent/testing";
import { type DeviceId, MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, readDirect } from "../checked-writer.js";
import { Devices } from "../device-mapper.js";
import { makeDrives, unwind } from "../engine-drives.js";
import { count } from "../tally.js";
import { DISK, MoveOrders, SESSION } from "./orders.js";

/** Has several of the smallest windows. */
const DEVICE_BYTES = 16 * MIB_BYTES;
const WRITE_BYTES = MIB_BYTES;
/** Rate in bytes per second at which the first copy lasts for some seconds. */
const RATE = 4 * MIB_BYTES;
/** Sessions of the publication after the detach. */
const [ON_SOURCE, ON_TARGET] = [10, 11];

describe("a move on the kernel engine whose disk is detached", () => {
  it("continues at the next attach after the bytes that the detach has returned", async () => {
    await using devices = new Devices();
    const { folder } = await makeDrives(devices, DEVICE_BYTES);
    const scene = new EngineScene(
      "kernel",
      { folder },
      { deviceBytes: DEVICE_BYTES, whyNoBlockDevices: "the test uses sockets" },
    );
    devices.later(() => unwind(scene));
    await scene.start();
    const client = await scene.use(await scene.publish(DISK, SESSION, ["a"], DEVICE_BYTES));
    devices.later(() => client.disconnect().catch(() => undefined));
    const orders = new MoveOrders(scene, { id: "a" }, 0, DEVICE_BYTES);
    const to = { id: "b", sessionNumber: 2 };
    await orders.begin(to, RATE);
    const data = noise(DEVICE_BYTES);
    for (let at = 0; at < DEVICE_BYTES; at += WRITE_BYTES) await client.write(at, data.subarray(at, at + WRITE_BYTES));
    await eventually(() => expect(orders.ask(to, RATE).copiedBytes).to.be.above(DEVICE_BYTES / 2));
    await client.disconnect();
    const [drained, ...others] = await scene.exports.drain(DISK, SESSION, () => {});
    expect(others).to.deep.equal([]);
    expect(drained).to.deep.include({ deviceId: "b", sessionNumber: to.sessionNumber });
    const copiedBytes = drained?.copiedBytes ?? 0;
    expect(copiedBytes).to.be.within(BLOCK_BYTES, DEVICE_BYTES);
    await scene.exports.end(DISK, SESSION);
    await scene.open(DISK, ON_SOURCE, ["a"]);
    await scene.open(DISK, ON_TARGET, ["b"]);
    // Differs from the source, and so shows whether the block is copied once more.
    const sign = Buffer.alloc(BLOCK_BYTES, 0xee);
    await scene.fixture.device("b").write(ON_TARGET, 0, sign, { fua: true });
    const spec = specOf(DISK, ON_SOURCE, ["a"], DEVICE_BYTES);
    const extents = spec.extents.map((extent) => {
      const target = { ...extent, deviceId: "b" as DeviceId, sessionNumber: ON_TARGET, bytesPerSecond: 0, copiedBytes };
      return { ...extent, target };
    });
    await scene.exports.serve({ ...spec, extents });
    const mirrored = { source: { deviceId: "a" as DeviceId }, target: { deviceId: "b" as DeviceId } };
    await eventually(() => {
      const status = scene.exports.askMirror({ diskId: DISK, sessionNumber: ON_SOURCE, revision: 0 }, mirrored, 0);
      expect(status.answer).to.have.property("is", "equal");
    });
    await scene.exports.end(DISK, ON_SOURCE);
    data.set(sign);
    expect((await readDirect(`${folder}/b`, DEVICE_BYTES / BLOCK_BYTES)).equals(data)).to.equal(true);
    count("moves that continued after a detach");
  });
});
