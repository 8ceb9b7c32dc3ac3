import { existsSync, rmSync } from "node:fs";
import type { DiskId } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { DEVICE_BYTES, type EngineScene, noise } from "./engine-scene.js";

const BLOCK_BYTES = 4096;

/** Declares the tests that every engine passes. */
export function engineContract(scene: () => EngineScene): void {
  it("serves the bytes of one device, within its range of a file", async () => {
    const client = await scene().use(await scene().publish("disk-1", 1, ["d"]));
    expect(client.sizeBytes).to.equal(DEVICE_BYTES);
    const data = noise(3 * BLOCK_BYTES);
    await client.write(BLOCK_BYTES, data, { fua: true });
    expect((await client.read(BLOCK_BYTES, data.length)).equals(data)).to.equal(true);
    const shared = scene().bytesOf("shared");
    const written = shared.subarray(DEVICE_BYTES + BLOCK_BYTES).subarray(0, data.length);
    expect(written.equals(data)).to.equal(true);
    expect(shared.subarray(0, DEVICE_BYTES).every((byte) => byte === 0)).to.equal(true);
    await rejection(client.write(DEVICE_BYTES, data));
  });

  it("joins devices of several files to one disk", async () => {
    const client = await scene().use(await scene().publish("disk-1", 1, ["b", "d", "a"]));
    expect(client.sizeBytes).to.equal(3 * DEVICE_BYTES);
    const data = noise(3 * DEVICE_BYTES);
    await client.write(0, data);
    await client.flush();
    expect((await client.read(0, data.length)).equals(data)).to.equal(true);
    const parts = [scene().bytesOf("b"), scene().bytesOf("shared").subarray(DEVICE_BYTES), scene().bytesOf("a")];
    expect(Buffer.concat(parts).equals(data)).to.equal(true);
    await client.writeZeroes(DEVICE_BYTES - BLOCK_BYTES, 2 * BLOCK_BYTES);
    data.fill(0, DEVICE_BYTES - BLOCK_BYTES, DEVICE_BYTES + BLOCK_BYTES);
    await client.trim(2 * DEVICE_BYTES, BLOCK_BYTES);
    expect((await client.read(0, 2 * DEVICE_BYTES)).equals(data.subarray(0, 2 * DEVICE_BYTES))).to.equal(true);
  });

  it("serves a later session at the same path, and nothing of it to clients of the earlier one", async () => {
    const path = await scene().publish("disk-1", 1, ["a"]);
    const old = await scene().use(path);
    const data = noise(BLOCK_BYTES);
    await old.write(0, data, { fua: true });
    expect(await scene().publish("disk-1", 2, ["a"])).to.equal(path);
    await rejection(old.write(0, Buffer.alloc(BLOCK_BYTES, 1)));
    const fresh = await scene().use(path);
    expect((await fresh.read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
    await scene().exports.end("disk-1" as DiskId, 2);
    expect(existsSync(path)).to.equal(false);
    await rejection(fresh.read(0, BLOCK_BYTES));
  });

  it("leaves the disk of another device of the same file alone", async () => {
    const one = await scene().publish("disk-1", 1, ["c"]);
    const other = await scene().publish("disk-2", 2, ["d"]);
    const client = await scene().use(other);
    await scene().open("disk-1", 3, ["c"]);
    await client.write(0, noise(BLOCK_BYTES), { fua: true });
    await scene().open("disk-2", 4, ["d"]);
    await rejection(client.write(0, noise(BLOCK_BYTES)));
    expect(one).to.not.equal(other);
  });

  it("has nothing of a detached device, and serves it again once it is attached", async () => {
    const path = await scene().publish("disk-1", 1, ["a"]);
    const data = noise(BLOCK_BYTES);
    await (await scene().use(path)).write(0, data, { fua: true });
    expect(await scene().detach("a", 1)).to.equal("done");
    expect(await scene().holdersOf("a")).to.deep.equal([]);
    expect(await scene().fixture.order("attach", "a", 2)).to.equal("done");
    expect(await scene().publish("disk-1", 2, ["a"])).to.equal(path);
    expect((await (await scene().use(path)).read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
  });

  it("makes a removed path again and keeps its clients", async () => {
    const path = await scene().publish("disk-1", 1, ["a"]);
    const client = await scene().use(path);
    rmSync(path);
    await scene().exports.lookAtSockets();
    const data = noise(BLOCK_BYTES);
    await client.write(0, data);
    expect((await (await scene().use(path)).read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
  });
}
