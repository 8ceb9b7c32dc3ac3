import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { DiskId } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, SmallDisk, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { NbdClient, NbdRequestError } from "../nbd/client.js";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { engineContract } from "../testing/engine-contract.js";
import { DEVICE_BYTES, EngineScene, noise } from "../testing/engine-scene.js";
import { holdersOf } from "../testing/file-holders.js";
import { beginFlood } from "../testing/flood.js";

const BLOCK_BYTES = 4096;
// The node engine serves from this process, so that a synchronous call would wait for itself.
const run = promisify(execFile);

for (const engine of ["node", "qemu"] as const)
  describe(`the ${engine} engine`, () => {
    let scene: EngineScene;

    beforeEach(async function () {
      if (engine === "qemu") skipWithout(this, "qemu-storage-daemon");
      scene = new EngineScene(engine);
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
      const other = new EngineScene(engine, { folder });
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

describe("the qemu engine beyond the agent's life", () => {
  let scene: EngineScene;

  beforeEach(async function () {
    skipWithout(this, "qemu-storage-daemon");
    scene = new EngineScene("qemu");
    await scene.start();
  });

  afterEach(async () => {
    await scene?.stop();
  });

  it("fails no I/O when the agent ends, and is taken over by its next life", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const flood = await beginFlood(path);
    scene = new EngineScene("qemu", await scene.leave());
    const before = flood.writes();
    await eventually(() => flood.writes() > before);
    await scene.start();
    expect(scene.exports.find("disk-1" as DiskId)).to.equal(path);
    const after = flood.writes();
    await eventually(() => flood.writes() > after);
    await scene.open("disk-1", 2, ["a"]);
    const granted = scene.bytesOf("a");
    await flood.ended;
    expect(scene.bytesOf("a").equals(granted)).to.equal(true);
  });

  it("kills a daemon that has not started yet when its session is superseded", async () => {
    const programs = temporaryFolder();
    writeFileSync(join(programs, "qemu-storage-daemon"), "#!/bin/sh\nexec sleep 1000\n", { mode: 0o700 });
    const { PATH } = process.env;
    process.env.PATH = `${programs}:${PATH}`;
    try {
      const serving = rejection(scene.publish("disk-1", 1, ["a"]));
      const file = join(scene.fixture.folder, "a");
      await eventually(() => holdersOf(file).length === 2);
      await scene.open("disk-1", 2, ["a"]);
      expect(holdersOf(file)).to.deep.equal([process.pid]);
      // A start that ran out of its time would say so.
      expect((await serving).message).to.match(/does not serve: session 1 of device a is outdated/);
    } finally {
      process.env.PATH = PATH;
    }
  });

  it("serves a disk again whose daemon was killed", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const client = await scene.connect(path);
    const data = noise(BLOCK_BYTES);
    await client.write(0, data, { fua: true });
    const [daemon] = holdersOf(join(scene.fixture.folder, "a")).filter((pid) => pid !== process.pid);
    process.kill(daemon as number, "SIGKILL");
    await rejection(client.read(0, BLOCK_BYTES));
    expect((await (await connectAgain(scene, path)).read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
  });
});

/** Connects as soon as the disk is served. */
async function connectAgain(scene: EngineScene, path: string): Promise<NbdClient> {
  let client: NbdClient | undefined;
  await eventually(async () => {
    client = await scene.connect(path).catch(() => undefined);
    return client !== undefined;
  });
  return client as NbdClient;
}
