import type { Disk } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { retrying } from "../mesh/steps.js";
import { ended } from "../mesh/typed-lines.js";
import { Drill, NAMED, WIDE } from "./drill.js";
import { UNTYPED } from "./page.js";

const NEW_DISKS = 30;
/** Losses of one mesh: what was rebuilt is lost again. */
const LOSSES = 2;
const SEED = 1;

describe("a registry whose store and backups are lost", function () {
  this.timeout(300_000);
  this.bail(true);
  let drill: Drill;
  let fleet: string;

  before(async function () {
    leaveToVerify(this);
    for (const program of ["bash", "grpcurl", "jq"]) skipWithout(this, program);
    drill = await Drill.start(SEED);
    await drill.begin();
    fleet = await drill.fleetId();
  });
  after(() => drill?.[Symbol.asyncDispose]());

  it("is not rebuilt while it lives, and is named by the plan", async () => {
    await drill.files();
    const hears = /nothing was changed: the agents of host-1, .* hear a registry/;
    await refused(drill, ["--fleet", fleet, "--yes"], hears);
    expect((await drill.rebuild()).text).to.contain("HEARS A REGISTRY");
  });

  for (let loss = 1; loss <= LOSSES; loss++)
    it(`is rebuilt from what its agents carry, under checked writers, and after a kill -9 (loss ${loss})`, async () => {
      const before = byId(await drill.disks());
      await drill.loseRegistry();
      await eventually(async () => expect((await drill.rebuild()).text).not.to.contain("HEARS A REGISTRY"));
      const plan = await drill.type("See the plan", 0);
      expect(plan).to.contain(`fleet ${fleet}: 5 hosts, 15 devices, ${before.size} disks, 11 of them published`);
      expect(plan).not.to.contain("NOT");
      if (loss === 1) await badInputs(drill, fleet);

      await drill.rebuildKilled(drill.random.between(0, 3_000), "--fleet", fleet, "--yes");
      const again = await drill.rebuild("--fleet", fleet, "--yes", "--replace");
      expect(again.code, again.text).to.equal(0);
      drill.deleteStore();
      const made = await drill.type("Make the registry", 0, { FLEET: fleet });
      await drill.startRegistry();
      await drill.type("Make the registry", 1);
      await drill.anotherRound();
      const { unknownDiskDevices, standsStill, incarnation } = await drill.mesh.clients.fleet.getFleet({});
      expect({ unknownDiskDevices, standsStill }).to.deep.equal({ unknownDiskDevices: 0, standsStill: "" });
      expect(made).to.contain(incarnation);
      const after = byId(await drill.disks());
      for (const [diskId, disk] of before) expect(kept(after.get(diskId)), diskId).to.deep.equal(kept(disk));
      await drill.compareDetached();
      expect(drill.faults).to.deep.equal([]);
    });

  it("gives disks by their ids, and by the names that a director has kept", async () => {
    const path = await drill.type("Take a disk by its id", 0, { DISK: "disk-20" });
    await drill.writerOf("disk-20").check(path.trim());
    await drill.unpublish("disk-20", "host-1");
    await ended(drill.mesh, `attach ${NAMED} --host host-4 --move`, 0);
    expect([...UNTYPED], "blocks of the page that nobody has typed").to.deep.equal([]);
  });

  it("gives new disks no bytes of old ones, and erases all others before", async () => {
    await newDisksAreEmpty(drill);
    await drill.compareDetached();
    await drill.anotherRound();
    expect(drill.faults).to.deep.equal([]);
  });

  it("fences a host, whose writers change nothing from then on", async () => {
    await aFenceWorks(drill);
    await drill.compareDetached();
    await drill.anotherRound();
    expect(drill.faults).to.deep.equal([]);
  });

  it("without a host that is away: its disks are named, and nothing of it is changed until it is back", async () => {
    const hostsOf = ({ parts }: Disk) => parts.flatMap(({ copies }) => copies.map(({ hostId }) => hostId));
    const away = hostsOf(await drill.disk(WIDE)).find((hostId) => hostId !== "host-1") ?? "";
    const devicesOf = ({ parts }: Disk) => parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId));
    const listed = await drill.disks();
    // A device with a part of a disk that is not rebuilt is held, and with it the fences of all its disks.
    const held = new Set(listed.filter((disk) => hostsOf(disk).includes(away)).flatMap(devicesOf));
    const elsewhere = listed.find(
      (disk) => !devicesOf(disk).some((deviceId) => held.has(deviceId)) && drill.isWrittenAndDetached(disk.diskId),
    );
    const heldId = elsewhere?.diskId ?? "";
    await drill.publish(heldId, away);
    const before = byId(await drill.disks());
    const isThere = (disk: Disk) => disk.publication?.hostId === away || hostsOf(disk).includes(away);
    const there = [...before.values()].filter(isThere);
    const others = [...before.values()].filter((disk) => !isThere(disk) || disk.diskId === heldId);
    expect(there.length, "disks on the host, or published to it").to.be.above(1);
    await drill.stopWriters(there.map(({ diskId }) => diskId));
    await drill.mesh.process(away).kill();
    const bytes = drill.deviceBytes(away);

    await drill.loseRegistry();
    await drill.withoutAgent(away, async () => {
      await eventually(async () => expect((await drill.rebuild()).text).not.to.contain("HEARS A REGISTRY"));
      const { code, text } = await drill.rebuild("--fleet", fleet, "--yes");
      expect(code, text).to.equal(0);
      expect(text).to.match(new RegExp(`disk ${heldId}: .* published to host ${away}`));
      expect(text).to.contain(`host ${away}: has disks and did not answer: it is UNAVAILABLE`);
      expect(text).to.match(new RegExp(`disk ${WIDE}: NOT REBUILT: part \\d of \\d was not found`));
    });
    await drill.startRegistry(4);
    const rebuilt = byId(await drill.disks());
    for (const disk of others)
      expect(kept(rebuilt.get(disk.diskId)).parts, disk.diskId).to.deep.equal(kept(disk).parts);
    await retrying("FenceHost", () => drill.registry.fenceHost({ hostId: away, reason: "it is away" }));
    await eventually(async () => expect((await drill.disk(heldId)).publication).to.equal(undefined));
    await drill.writerOf(heldId).check(await drill.publish(heldId, "host-1"));
    await drill.unpublish(heldId, "host-1");
    await drill.mesh.process(away).start();
    await drill.whenRegistered();
    expect(drill.deviceBytes(away), "bytes of the host that was away").to.equal(bytes);

    await drill.loseRegistry();
    await eventually(async () => expect((await drill.rebuild()).text).not.to.contain("HEARS A REGISTRY"));
    const { code, text } = await drill.rebuild("--fleet", fleet, "--yes");
    expect(code, text).to.equal(0);
    await drill.startRegistry();
    const all = byId(await drill.disks());
    for (const [diskId, disk] of before) expect(kept(all.get(diskId)).parts, diskId).to.deep.equal(kept(disk).parts);
    await drill.anotherRound();
    expect(drill.faults).to.deep.equal([]);
  });
});

async function badInputs(drill: Drill, fleet: string): Promise<void> {
  await refused(drill, ["--fleet", "another-fleet", "--yes"], /obeys fleet .* and not "another-fleet"/);
  await refused(drill, ["--yes"], /--fleet is missing/);
  const agent = drill.mesh.process("host-5");
  agent.signal("SIGSTOP");
  await refused(drill, ["--fleet", fleet, "--yes"], /the agents of host-5 were not read/);
  agent.signal("SIGCONT");
}

/** Fills most of the free bytes with new disks, and writes to them. */
async function newDisksAreEmpty(drill: Drill): Promise<void> {
  await drill.whenErased();
  for (let index = 0; index < NEW_DISKS; index++) {
    await drill.create(`new-${index}`, MIB_BYTES);
    const client = await NbdClient.connect({ socketPath: await drill.publish(`new-${index}`, "host-1") });
    expect((await client.read(0, MIB_BYTES)).equals(Buffer.alloc(MIB_BYTES)), `new-${index} reads zeros`).to.equal(
      true,
    );
    await client.write(0, Buffer.alloc(MIB_BYTES, `new-${index}`), { fua: true });
    await client.disconnect();
  }
}

/** Takes the disks of a host from it, whose writers then change nothing, and gives them to another host. */
async function aFenceWorks(drill: Drill): Promise<void> {
  const hostId = "host-2";
  const disks = (await drill.disks()).filter(({ publication }) => publication?.hostId === hostId);
  expect(disks).to.have.length(2);
  await retrying("FenceHost", () => drill.registry.fenceHost({ hostId, reason: "the drill" }));
  for (const { diskId } of disks) {
    const writer = drill.writerOf(diskId);
    await eventually(() => expect(writer.load.failures).not.to.be.empty);
    await writer.stop();
    writer.load.failures.length = 0;
  }
}

/** Returns what a rebuild keeps of a disk. */
function kept(disk: Disk | undefined) {
  const { diskId, sizeBytes, blockSizeBytes, az, pool, parts, publication } = disk ?? {};
  const { hostId, state, sessionNumber, exportPath } = publication ?? {};
  return {
    diskId,
    sizeBytes,
    blockSizeBytes,
    az,
    pool,
    parts,
    publication: { hostId, state, sessionNumber, exportPath },
  };
}

async function refused(drill: Drill, words: readonly string[], why: RegExp): Promise<void> {
  const { code, text } = await drill.rebuild(...words);
  expect(text).to.match(why);
  expect(code).to.equal(1);
}

const byId = (disks: readonly Disk[]): ReadonlyMap<string, Disk> => new Map(disks.map((disk) => [disk.diskId, disk]));
