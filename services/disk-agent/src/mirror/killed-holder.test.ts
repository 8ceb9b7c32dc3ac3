import { randomBytes, randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { AgentScene, DONE } from "../testing/agent-scene.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import type { AgentOrders } from "../testing/test-registry.js";

const BLOCK_BYTES = 4_096;
/** More than one chunk of a copy: the first one is written at any rate. */
const DEVICE_BYTES = 2 * 1_048_576;
const SESSION = { source: 1, target: 2 };

describe(`a holder that is killed while a disk moves, with the node engine`, () => {
  const scene = AgentScene.forEachTest();
  const device = (name: string, change: object = {}) => ({
    deviceId: `dev-${name}`,
    hostId: "host-1",
    sizeBytes: DEVICE_BYTES,
    ...change,
  });
  const targetB = { sessionNumber: SESSION.target };
  const order = (orders: AgentOrders, revision: number, extent: object) =>
    orders.client.exportDisk({
      bootId: orders.bootId,
      stamp: scene.registry.stamp(),
      diskId: "disk-1",
      sessionNumber: SESSION.source,
      blockSizeBytes: BLOCK_BYTES,
      extents: [extent],
      revision,
    });
  const stateOf = async (orders: AgentOrders) => {
    const ids = { diskId: "disk-1", deviceId: "dev-a", targetDeviceId: "dev-b" };
    const request = { bootId: orders.bootId, stamp: scene.registry.stamp(), ...ids };
    return (await orders.client.getMirror({ ...request, sessionNumber: SESSION.source, revision: 1 })).state;
  };
  const connect = () => NbdClient.connect({ socketPath: join(scene.agent.baseFolder, "exports", "disk-1.sock") });

  beforeEach(async () => {
    for (const name of ["a", "b"]) makeDeviceFile(scene.folder, name, DEVICE_BYTES);
    await scene.start(
      {},
      scene.devices.map((device) => ({ ...device, sizeBytes: DEVICE_BYTES })),
    );
  });

  for (const [state, counts] of [
    ["COPYING", "a"],
    ["EQUAL", "a"],
    ["EQUAL", "b"],
  ] as const)
    it(`at ${state}: has every acknowledged write once device ${counts} counts, and serves nothing before`, async () => {
      const orders = await scene.orders();
      for (const [name, number] of Object.entries({ a: SESSION.source, b: SESSION.target }))
        expect(await orders.openSession([`dev-${name}`], number, "disk-1", "host-1")).to.deep.equal([DONE]);
      await order(orders, 0, device("a"));
      const client = await connect();
      const bytes = Buffer.alloc(DEVICE_BYTES);
      const written = { offset: 0, data: Buffer.alloc(0) as Buffer, count: 0 };
      const write = async () => {
        for (;;) {
          written.offset = randomInt(DEVICE_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
          written.data = randomBytes(BLOCK_BYTES);
          await client.write(written.offset, written.data);
          written.data.copy(bytes, written.offset);
          written.count += 1;
        }
      };
      const running = write();
      running.catch(() => undefined);
      const more = (before = written.count) => eventually(() => expect(written.count).to.be.above(before + 5));
      const bytesPerSecond = state === "COPYING" ? 1 : 0;
      const moving = device("a", { target: device("b", { ...targetB, bytesPerSecond }) });
      await order(orders, 1, moving);
      await eventually(async () => expect(await stateOf(orders)).to.equal(`MIRROR_STATE_${state}`));
      await more();

      await scene.agent.process.kill();
      await scene.agent.process.start();
      const next = await scene.orders(1);
      await rejection(order(next, 1, moving), OutdatedError, "order a later revision");
      await order(next, 2, counts === "a" ? device("a") : device("b", targetB));
      await rejection(running);
      // The write that the kill has interrupted may be done or not.
      const [start, end] = [written.offset, written.offset + BLOCK_BYTES];
      readFileSync(scene.path(counts)).copy(bytes, start, start, end);
      const again = await connect();
      expect((await again.read(0, DEVICE_BYTES)).equals(bytes)).to.equal(true);
      expect(readFileSync(scene.path(counts)).equals(bytes)).to.equal(true);
      for (const each of [client, again]) each.destroy();
      await next.unexport("disk-1", SESSION.source);
    });
});
