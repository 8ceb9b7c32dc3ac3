import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { failureOf } from "@diskmesh/csi-driver/testing";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { CsiMesh, needBlockDevices } from "./csi-mesh.js";
import type { NodeOrder } from "./node-order.js";

/** Lives of a volume with a kill at each of its calls, for each killed process: `ROUNDS=5 npm test -- csi/kills`. */
const ROUNDS = Number(process.env.ROUNDS ?? 1);
/** Longer than most calls take. */
const KILLED_WITHIN_MS = 300;

describe("a volume's life goes on after kill -9 in the middle of any call", () => {
  let csi: CsiMesh;

  before(async function () {
    needBlockDevices(this);
    csi = await CsiMesh.start({ hosts: 2, devicesPerHost: 4 });
  });
  after(() => csi?.[Symbol.asyncDispose]());

  for (const killed of ["the driver", "director", "disk-registry", "cpi-dispatcher"])
    it(`of ${killed}`, async function () {
      if (killed !== "the driver") leaveToVerify(this);
      this.timeout(ROUNDS * 900_000);
      for (let round = 1; round <= ROUNDS; round++) await liveThrough(killed, round);
    });

  async function liveThrough(killed: string, round: number): Promise<void> {
    const name = `pvc-${killed}-${round}`;
    const node = round % 2;
    const order = csi.orderOn(node, await csi.create(name));
    const create = () => csi.create(name).then(() => {});
    const calls = [create, ...order.up, ...order.down, () => csi.remove(order.volumeId)];
    for (const [index, call] of calls.entries()) {
      const interrupted = call().catch(() => {});
      await delay(Math.random() * KILLED_WITHIN_MS);
      await killAndStart(killed);
      await interrupted;
      await eventually(call);
      if (index >= 1 && index <= 5) await expectOneHolder(order, 1 - node);
      if (index === 3) writeFileSync(join(order.target, "data"), name);
      if (index === 4) expect(readFileSync(join(order.staging, "data"), "utf8")).to.equal(name);
      if (index === 5) checkFileSystem(deviceOf(order, node));
    }
    await eventually(() => expect(leftovers(order)).to.deep.equal([]));
    expect(await csi.attachments()).to.deep.equal({});
    expect((await csi.mesh.clients.registry.listDisks({})).disks).to.deep.equal([]);
  }

  async function killAndStart(killed: string): Promise<void> {
    if (killed === "the driver") return csi.drivers[0]?.killAndStart();
    const process = csi.mesh.process(killed);
    await process.kill();
    await process.start();
  }

  /** Tries to attach the volume to the other node, too. */
  async function expectOneHolder({ volumeId, publishContext: { diskCid = "" } }: NodeOrder, other: number) {
    expect(await failureOf(csi.orderOn(other, volumeId).attach())).to.match(/^FAILED_PRECONDITION: .*is attached to/);
    const holders = csi.mesh.hostIds.filter((hostId) => existsSync(csi.mesh.dynamicDisk(hostId, diskCid)));
    expect(holders).to.deep.equal([csi.mesh.hostIds[1 - other]]);
  }

  function deviceOf({ publishContext: { diskCid = "" } }: NodeOrder, node: number): string {
    return realpathSync(csi.mesh.dynamicDisk(csi.mesh.hostIds[node] ?? "", diskCid));
  }

  /** Returns the volume's mounts, the links to disks, and the devices and programs of the agents' exports. */
  function leftovers({ folder }: NodeOrder): string[] {
    const { mesh } = csi;
    const bases = mesh.hostIds.map((hostId) => mesh.baseFolder(hostId));
    const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
    return [
      ...mounts.filter((line) => [folder, ...bases].some((path) => line.includes(`${path}/`))),
      ...bases.flatMap((base) => programsIn(`${base}/exports`)),
      ...mesh.hostIds.flatMap((hostId) => readdirSync(mesh.dynamicDisk(hostId, "."))),
    ];
  }
});

/** Returns the programs that run in a folder, or that have it in their arguments. */
function programsIn(folder: string): string[] {
  const places = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return places.flatMap((pid) => {
    try {
      const text = `${readlinkSync(`/proc/${pid}/cwd`)} ${readFileSync(`/proc/${pid}/cmdline`, "utf8")}`;
      return text.includes(folder) ? [text.replaceAll("\0", " ")] : [];
    } catch {
      return [];
    }
  });
}

function checkFileSystem(device: string): void {
  const { status, stdout } = spawnSync("fsck.ext4", ["-f", "-n", device], { encoding: "utf8" });
  expect(status, stdout).to.equal(0);
}
