import { execFileSync, spawnSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { type DriverProcess, needLoopDevices } from "@diskmesh/csi-driver/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { Drive, eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestMesh } from "../mesh/test-mesh.js";
import { CsiMesh } from "./csi-mesh.js";
import { CAPABILITY } from "./node-order.js";

describe("a csi-driver in trouble", () => {
  let csi: CsiMesh;
  let mesh: TestMesh;
  let driver: DriverProcess;

  before(async () => {
    csi = await CsiMesh.start({ nodes: "hosts", hosts: 1, devicesPerHost: 1 });
    ({ mesh } = csi);
    driver = csi.drivers[0] as DriverProcess;
  });
  after(() => csi?.[Symbol.asyncDispose]());

  /** Waits until `why` lists what both the director and the host's agent say of the driver. */
  async function isListed(text: string): Promise<void> {
    await eventually(async () => {
      const { out } = await mesh.typed("why");
      for (const of of ["service +director", "host +host-1"])
        expect(out).to.match(new RegExp(`^${of} .* warns: the csi-driver at \\S+csi\\.sock .*${text}`, "m"));
    });
  }

  // The certificates of tests end soon, of which the driver always warns.
  const isWell = () =>
    eventually(async () => {
      const { out } = await mesh.typed("why");
      expect(out).not.to.match(/stopped to report|runs since|was killed/);
    });

  it("that stands still is listed until it runs on", async () => {
    await eventually(() => mesh.typed("status"));
    driver.signal("SIGSTOP");
    try {
      await isListed("sends no reports any more");
      expect((await mesh.typed("why", "service", "director")).out).to.match(/restart it if it hangs/);
    } finally {
      driver.signal("SIGCONT");
    }
    await isWell();
  });

  it("whose disk hangs is listed with the call and the volume, until the disk answers", async function () {
    needLoopDevices(this);
    const problem = Drive.problem();
    if (problem !== undefined) skipBecause(this, problem);
    const drive = await Drive.open(join(mesh.folder, "drive"), MIB_BYTES);
    const device = execFileSync("losetup", ["--find", "--show", drive.path], { encoding: "utf8" }).trim();
    try {
      symlinkSync(device, join(mesh.baseFolder("host-1"), "exports/disk-1.device"));
      drive.hang();
      const request = { volumeId: "csi-1", publishContext: { diskCid: "disk-1" }, volumeCapability: CAPABILITY };
      const staged = driver.clients.node
        .nodeStageVolume({ ...request, stagingTargetPath: join(mesh.folder, "staging") })
        .catch(() => undefined);
      await isListed("NodeStageVolume of volume csi-1 runs since \\S+: see its disk \\(diskmesh why disk csi-1\\)");
      drive.resume();
      await staged;
      await isWell();
    } finally {
      drive.resume();
      spawnSync("losetup", ["--detach", device]);
      await drive.close();
    }
  });

  it("that is stopped is not listed, and one that is killed three times is", async () => {
    for (let kills = 0; kills < 3; kills++) await driver.killAndStart();
    await isListed("it was killed or crashed 3 times within 10 min: read the last line of its former log");
    expect(await driver.stop()).to.equal(0);
    await isWell();
  });
});
