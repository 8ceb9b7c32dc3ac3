import { type Disk, HostState } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { registryFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const SIZE = MIB_BYTES;
const BLOCK = 4_096;
const FIRST = Buffer.alloc(BLOCK, "of the first host");
const SECOND = Buffer.alloc(BLOCK, "of the second host");
const LATE = Buffer.alloc(BLOCK, "too late");

/** The model's `fences.test.ts` has the other fences: of dead hosts, by rule, and with devices that cannot be asked. */
describe("a disk of a host that stands still", () => {
  let mesh: TestMesh;

  before(async () => {
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["h1", "h2", "h3"],
        devices: { count: 1, sizeBytes: SIZE },
      }),
    );
    await addHosts(mesh);
    await devicesReady(mesh);
    await mesh.clients.registry.createDisk({ diskId: "x", sizeBytes: SIZE, hostId: "h2" });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const diskX = async (): Promise<Disk> => {
    const { disk } = await mesh.clients.registry.getDisk({ diskId: "x" });
    if (disk === undefined) throw new Error("the answer has no disk");
    return disk;
  };

  /** Publishes the disk to the host, and returns the path of its socket there. */
  const publish = async (hostId: string): Promise<string> => {
    const { disk } = await eventually(() => mesh.clients.registry.publishDisk({ diskId: "x", hostId }));
    return disk?.publication?.exportPath ?? "";
  };

  const outcomeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => "done",
      () => "refused",
    );

  it("is fenced and written elsewhere; the host returns, its late write is refused, and it serves nothing", async () => {
    const socketPath = await publish("h1");
    const first = await NbdClient.connect({ socketPath });
    await first.write(0, FIRST, { fua: true });
    mesh.process("h1").signal("SIGSTOP");
    try {
      const late = outcomeOf(first.write(0, LATE, { fua: true }));
      expect(
        (await mesh.clients.registry.fenceHost({ hostId: "h1", dryRun: true })).disks.map((disk) => disk.diskId),
      ).to.deep.equal(["x"]);
      const startedMs = performance.now();
      const { disks } = await mesh.clients.registry.fenceHost({ hostId: "h1", reason: "it stands still" });
      expect(disks).to.deep.equal([{ diskId: "x", complete: true, unaskedDeviceCount: 0, unaskedDevices: [] }]);
      expect((await diskX()).fence).to.deep.include({ hostId: "h1", by: "operator", reason: "it stands still" });
      const second = await NbdClient.connect({ socketPath: await publish("h3") });
      await second.write(0, SECOND, { fua: true });
      console.log(`      written elsewhere ${Math.round(performance.now() - startedMs)} ms after FenceHost was called`);
      expect((await diskX()).fence).to.equal(undefined);
      mesh.process("h1").signal("SIGCONT");
      expect(await late).to.equal("refused");
      await eventually(async () => {
        const { host } = await mesh.clients.registry.getHost({ hostId: "h1" });
        expect(host?.state).to.equal(HostState.ONLINE);
      });
      // Connected clients are disconnected, and new ones are refused.
      await eventually(async () => {
        const again = NbdClient.connect({ socketPath }).then((client) => client.disconnect());
        expect(await outcomeOf(again)).to.equal("refused");
      });
      expect(await second.read(0, BLOCK)).to.deep.equal(SECOND);
      await second.disconnect();
    } finally {
      mesh.process("h1").signal("SIGCONT");
    }
  });
});
