import { execFileSync, spawnSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DriverProcess, needLoopDevices } from "@diskmesh/csi-driver/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { anotherCertificate, Drive, eventually, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { CAPABILITY } from "./node-order.js";

describe("a csi-driver in trouble", () => {
  let mesh: TestMesh;
  let driver: DriverProcess;
  let exportsFolder: string;

  before(async () => {
    mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES }));
    await addHosts(mesh);
    exportsFolder = join(mesh.baseFolder("host-1"), "exports");
    const tls = await anotherCertificate(mesh.certificates.folder, "csi-work", {
      identity: { role: "csi", name: "work" },
      commonName: "csi",
      usages: ["client"],
    });
    const config = {
      controller: { director: { address: mesh.addresses("director") }, tls, cluster: "work", azs: ["z1"] },
      node: {
        ...{ hostId: "host-1", exportsFolder, az: "z1" },
        ...{ mountFolders: [tmpdir()], stateFolder: join(mesh.folder, "csi-node") },
      },
    };
    driver = await DriverProcess.start(config, "controller", "node");
  });
  after(async () => {
    await driver?.[Symbol.asyncDispose]();
    await mesh?.[Symbol.asyncDispose]();
  });

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
      symlinkSync(device, join(exportsFolder, "disk-1.device"));
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
