import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { rejection } from "@diskmesh/domain/testing";
import { SmallDisk, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import type { NbdRequestError } from "../nbd/client.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { engineContract } from "../testing/engine-contract.js";
import { DEVICE_BYTES, EngineScene, noise } from "../testing/engine-scene.js";

const BLOCK_BYTES = 4096;
// The node engine serves from this process, so that a synchronous call would wait for itself.
const run = promisify(execFile);

describe(`the node engine`, () => {
  let scene: EngineScene;

  beforeEach(async () => {
    scene = new EngineScene("node");
    await scene.start();
  });

  afterEach(async () => {
    await scene?.stop();
  });

  engineContract(() => scene);

  it("fails a write without room below a sparse file, keeps what was acknowledged, and writes again with room", async function () {
    using small = SmallDisk.mount(8 * DEVICE_BYTES);
    if (small === undefined) skipBecause(this, "this process may not mount a tmpfs");
    const { folder } = small;
    for (const name of ["a", "b"]) makeDeviceFile(folder, name, DEVICE_BYTES);
    makeDeviceFile(folder, "shared", 2 * DEVICE_BYTES);
    const other = new EngineScene("node", { folder });
    try {
      await other.start();
      const client = await other.connect(await other.publish("disk-1", 1, ["a"]));
      const data = noise(BLOCK_BYTES);
      await client.write(0, data, { fua: true });
      small.fill();
      const refused = (await rejection(client.write(2 * BLOCK_BYTES, data, { fua: true }))) as NbdRequestError;
      expect(refused.code).to.equal("ENOSPC");
      expect((await client.read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
      small.makeRoom();
      await client.write(2 * BLOCK_BYTES, data, { fua: true });
      expect(
        other
          .bytesOf("a")
          .subarray(2 * BLOCK_BYTES, 3 * BLOCK_BYTES)
          .equals(data),
      ).to.equal(true);
    } finally {
      await other.stop();
    }
  });

  it("serves qemu-img and nbdcopy", async function () {
    for (const program of ["qemu-img", "nbdcopy"]) skipWithout(this, program);
    const path = await scene.publish("disk-1", 1, ["a", "b"]);
    const [from, to] = [join(scene.fixture.folder, "from"), join(scene.fixture.folder, "to")];
    const data = noise(2 * DEVICE_BYTES);
    writeFileSync(from, data);
    const uri = `nbd+unix:///disk-1?socket=${path}`;
    await run("nbdcopy", ["--flush", from, uri]);
    await run("qemu-img", ["convert", "-O", "raw", uri, to]);
    expect(scene.bytesOf("to").equals(data)).to.equal(true);
  });
});
