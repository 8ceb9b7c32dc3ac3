import { join } from "node:path";
import { HostState } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const BLOCK = 4_096;
const PATIENCE = { timeoutMs: 60_000, everyMs: 50 };
const HOSTS = Array.from({ length: 12 }, (_, index) => `h${index + 1}`);
/** Lost hosts. The first two are stopped and continue to write when they return; the others are killed. */
const LOST = HOSTS.slice(0, 7);
const STANDING_STILL = LOST.slice(0, 2);
const LEFT = HOSTS.slice(7);

const REASON = "the rack has no power";
const contents = (text: string) => Buffer.alloc(BLOCK, text);

/** An operator follows the documented procedure after most hosts of a fleet have failed at once. */
describe("seven of twelve hosts die", () => {
  let mesh: TestMesh;

  /** The disk of each lost host is on a device of a remaining host; another disk is the other way round. */
  const placeOf = (host: string) => LEFT[LOST.indexOf(host) % LEFT.length] as string;
  const DISKS = [...LOST.slice(0, 5).map((host) => ({ diskId: `disk-of-${host}`, host, device: placeOf(host) }))];
  const CUT_OFF = { diskId: "disk-of-h12", host: "h12", device: "h7" };

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: HOSTS,
        agent: (hostId, folder) => ({
          devices: [{ deviceId: `${hostId}-d`, path: makeDeviceFile(join(folder, "files", hostId), MIB_BYTES) }],
        }),
        registry: { heartbeat: { intervalMs: 500, timeoutMs: 5_000, probationMs: 0 } },
      }),
    );
    for (const hostId of HOSTS) await eventually(() => mesh.clients.registry.addHost({ hostId }), PATIENCE);
    for (const { diskId, device } of [...DISKS, CUT_OFF])
      await eventually(
        () => mesh.clients.registry.createDisk({ diskId, sizeBytes: MIB_BYTES, hostId: device }),
        PATIENCE,
      );
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const publish = async (diskId: string, hostId: string): Promise<NbdClient> => {
    const { disk } = await eventually(() => mesh.clients.registry.publishDisk({ diskId, hostId }), PATIENCE);
    return NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
  };
  const hosts = async () => (await mesh.clients.registry.listHosts({})).hosts;
  const publishedTo = async (hostId: string) =>
    (await mesh.clients.registry.listDisks({ hostId })).disks
      .filter(({ publication }) => publication?.hostId === hostId)
      .map(({ diskId }) => diskId);

  it("the silent hosts and their disks are named, the disks are fenced and written elsewhere, and returned hosts write nothing", async () => {
    const first = new Map<string, NbdClient>();
    for (const { diskId, host } of [...DISKS, CUT_OFF]) {
      const client = await publish(diskId, host);
      await client.write(0, contents(`first of ${diskId}`), { fua: true });
      first.set(host, client);
    }
    for (const hostId of STANDING_STILL) mesh.process(hostId).signal("SIGSTOP");
    try {
      const late = STANDING_STILL.map((host) =>
        (first.get(host) as NbdClient).write(0, contents("too late"), { fua: true }).then(
          () => "written",
          () => "refused",
        ),
      );
      await Promise.all(LOST.filter((host) => !STANDING_STILL.includes(host)).map((host) => mesh.process(host).kill()));

      // More than half of the hosts are silent, so the mass-outage guard keeps them from being marked UNAVAILABLE.
      await eventually(async () => {
        const suspected = (await hosts()).filter((host) => host.suspected).map(({ hostId }) => hostId);
        expect(suspected).to.have.members(LOST);
      }, PATIENCE);
      expect((await hosts()).every(({ state }) => state === HostState.ONLINE)).to.equal(true);
      for (const { diskId, host } of DISKS) expect(await publishedTo(host)).to.deep.equal([diskId]);

      // Dry run of SetHostState, then the call.
      const word = { hostIds: LOST, state: HostState.DEAD, reason: REASON };
      const would = await mesh.clients.registry.setHostState({ ...word, dryRun: true });
      expect(would.changedHostIds).to.have.members(LOST);
      expect([would.devices, would.disksOnDevices, would.publications]).to.deep.equal([LOST.length, 1, DISKS.length]);
      await mesh.clients.registry.setHostState(word);

      // The override alone grants nothing: other hosts cannot write before the lost hosts are fenced.
      const tooSoon = await mesh.clients.registry.publishDisk({ diskId: "disk-of-h1", hostId: "h9" }).then(
        () => "published",
        (error: Error) => error.message,
      );
      expect(tooSoon).to.contain("host h1 is DEAD").and.to.contain("FenceHost");
      const second = new Map<string, NbdClient>();
      for (const { diskId, host } of DISKS) {
        const { disks } = await mesh.clients.registry.fenceHost({ hostId: host, reason: REASON });
        expect(disks.map((disk) => [disk.diskId, disk.complete])).to.deep.equal([[diskId, true]]);
        const client = await publish(diskId, "h9");
        expect(await client.read(0, BLOCK)).to.deep.equal(contents(`first of ${diskId}`));
        await client.write(0, contents(`second of ${diskId}`), { fua: true });
        second.set(diskId, client);
      }

      // The hosts return. They stay DEAD until an operator says otherwise, and serve none of their disks.
      for (const hostId of STANDING_STILL) mesh.process(hostId).signal("SIGCONT");
      expect(await Promise.all(late)).to.deep.equal(STANDING_STILL.map(() => "refused"));
      await Promise.all(
        LOST.filter((host) => !STANDING_STILL.includes(host)).map((host) => mesh.process(host).start()),
      );
      await eventually(async () => {
        const back = (await hosts()).filter(({ hostId }) => LOST.includes(hostId));
        expect(back.every(({ state, suspected }) => state === HostState.DEAD && !suspected)).to.equal(true);
      }, PATIENCE);
      await mesh.clients.registry.setHostState({ hostIds: LOST, state: HostState.ONLINE });
      await eventually(async () => {
        expect((await hosts()).every(({ state }) => state === HostState.ONLINE)).to.equal(true);
      }, PATIENCE);
      for (const { diskId, host } of DISKS) {
        expect(await publishedTo(host)).to.deep.equal([]);
        const client = second.get(diskId) as NbdClient;
        expect(await client.read(0, BLOCK)).to.deep.equal(contents(`second of ${diskId}`));
        await client.disconnect();
      }
      // The agents that were fenced off can use their devices again.
      await eventually(async () => {
        const client = await publish(CUT_OFF.diskId, CUT_OFF.host);
        expect(await client.read(0, BLOCK)).to.deep.equal(contents(`first of ${CUT_OFF.diskId}`));
        await client.disconnect();
      }, PATIENCE);
    } finally {
      for (const hostId of STANDING_STILL) mesh.process(hostId).signal("SIGCONT");
    }
  });
});
