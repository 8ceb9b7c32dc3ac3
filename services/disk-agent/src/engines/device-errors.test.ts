import { execFile } from "node:child_process";
import { rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { bytesText } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { Drive, eventually, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { LEADER, makeDeviceFile, runOf } from "../testing/device-fixture.js";
import { DEVICE_BYTES, EngineScene, noise } from "../testing/engine-scene.js";

const BLOCK_BYTES = 4096;
const run = promisify(execFile);

describe(`a failing device below the node engine`, () => {
  let scene: EngineScene;
  let drive: Drive | undefined;

  beforeEach(async function () {
    const problem = Drive.problem();
    if (problem !== undefined) skipBecause(this, problem);
    skipWithout(this, "nbdcopy");
    const folder = temporaryFolder();
    drive = await Drive.open(join(folder, "nbd"), DEVICE_BYTES);
    symlinkSync(drive.path, join(folder, "a"));
    makeDeviceFile(folder, "b", DEVICE_BYTES);
    makeDeviceFile(folder, "shared", 2 * DEVICE_BYTES);
    scene = new EngineScene("node", { folder });
    await scene.start();
  });

  afterEach(async () => {
    drive?.resume();
    await scene?.stop();
    await drive?.close();
  });

  /** Writes a block, or reads the disk, as a stock client. */
  const copy = (path: string, direction: "read" | "write") => {
    const uri = `nbd+unix:///?socket=${path}`;
    const file = join(scene.fixture.folder, "block");
    writeFileSync(file, noise(BLOCK_BYTES));
    return run("nbdcopy", direction === "read" ? [uri, "null:"] : ["--flush", file, uri]);
  };
  const hardwareErrors = () =>
    [...scene.fixture.devices.hardwareErrors.unreported(scene.fixture.ledger.memory)].map(([id, { message }]) => [
      id,
      message,
    ]);

  for (const direction of ["read", "write"] as const)
    it(`a failed ${direction} reaches the client and the device's health, and the disk works once the device does`, async () => {
      const path = await scene.publish("disk-1", 1, ["a"]);
      const kept = noise(BLOCK_BYTES);
      await (await scene.connect(path)).write(BLOCK_BYTES, kept, { fua: true });
      expect(hardwareErrors()).to.deep.equal([]);
      drive?.fail();
      expect((await rejection(copy(path, direction))).message).to.include("Input/output error");
      drive?.mend();
      await scene.exports.lookAtSockets();
      const [[id, message] = []] = hardwareErrors();
      expect(id).to.equal("a");
      expect(message).to.match(/^I\/O on device a failed: .*EIO/);
      await copy(path, direction);
      expect((await (await scene.connect(path)).read(BLOCK_BYTES, BLOCK_BYTES)).equals(kept)).to.equal(true);
    });

  it("a fence right after an error does not hide the error", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    drive?.fail();
    await rejection(copy(path, "write"), Error, "Input/output error");
    await scene.open("disk-1", 2, ["a"]);
    drive?.mend();
    expect(hardwareErrors().map(([id]) => id)).to.deep.equal(["a"]);
  });

  it("a hanging device keeps the next session waiting, which is granted when the last write has ended", async () => {
    const { fixture } = scene;
    const client = await scene.connect(await scene.publish("disk-1", 1, ["a"]));
    drive?.hang();
    const last = noise(BLOCK_BYTES);
    const written = client.write(0, last, { fua: true }).catch(() => undefined);
    await eventually(() => fixture.device("a").inFlight > 0);
    // Lets an order answer that it is pending.
    fixture.files.opens.shut();
    const stamp = { ...LEADER, deviceGeneration: 0 };
    const wish = { number: 2, purpose: "disk" as const, diskId: "disk-1", holderHostId: "host-1" };
    const [waiting] = await fixture.sessions.open([runOf("a")], wish, stamp, { waitMs: 1_000 });
    expect(waiting).to.include({ outcome: "pending" });
    expect(waiting?.message).to.match(/1 operations of sessions before 2/);
    fixture.files.opens.open();
    drive?.resume();
    await scene.open("disk-1", 2, ["a"]);
    await written;
    const granted = scene.bytesOf("a");
    expect(granted.subarray(0, BLOCK_BYTES).equals(last) || granted.every((byte) => byte === 0)).to.equal(true);
  });
});

describe(`the device file below the node engine`, () => {
  let scene: EngineScene;

  beforeEach(async () => {
    scene = new EngineScene("node");
    await scene.start();
  });

  afterEach(() => scene?.stop());

  const look = () => scene.fixture.device("a").file.look();
  const problem = () => scene.fixture.device("a").problem;

  it("is removed: the device is ERROR, and its I/O goes on", async () => {
    const client = await scene.connect(await scene.publish("disk-1", 1, ["a"]));
    rmSync(join(scene.fixture.folder, "a"));
    await look();
    expect(problem()).to.deep.include({ level: "ERROR" });
    expect(problem()?.message).to.include("there is no such file");
    const data = noise(BLOCK_BYTES);
    await client.write(0, data, { fua: true });
    expect((await client.read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
  });

  it("is truncated: the device is ERROR, and its I/O fails until the file is whole", async () => {
    const path = await scene.publish("disk-1", 1, ["a"]);
    const client = await scene.connect(path);
    truncateSync(join(scene.fixture.folder, "a"), BLOCK_BYTES);
    await look();
    expect(problem()).to.deep.include({ level: "ERROR" });
    expect(problem()?.message).to.include(`, is ${bytesText(BLOCK_BYTES)}`);
    const late = client.write(DEVICE_BYTES - BLOCK_BYTES, noise(BLOCK_BYTES), { fua: true }).then(
      () => "written",
      () => "refused",
    );
    expect(scene.bytesOf("a").length).to.equal(BLOCK_BYTES);
    truncateSync(join(scene.fixture.folder, "a"), DEVICE_BYTES);
    await look();
    // I/O waits within its timeout.
    expect(await late).to.equal("written");
    await eventually(async () => {
      const again = await scene.connect(path).catch(() => undefined);
      return again !== undefined && (await again.read(0, BLOCK_BYTES)).length === BLOCK_BYTES;
    });
    await scene.fixture.device("a").probe(0);
    expect(problem()).to.equal(undefined);
  });
});
