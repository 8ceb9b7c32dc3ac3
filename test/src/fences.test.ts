import { join } from "node:path";
import { type Disk, HostState, OnHostSilence } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const SIZE = MIB_BYTES;
const BLOCK = 4_096;
const FIRST = Buffer.alloc(BLOCK, "of the first host");
const SECOND = Buffer.alloc(BLOCK, "of the second host");
const LATE = Buffer.alloc(BLOCK, "too late");
const PATIENCE = { everyMs: 20 };
const TIMEOUT_MS = 5_000;

describe("disks of hosts that are gone", () => {
  let mesh: TestMesh;

  beforeEach(async () => {
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["h1", "h2", "h3"],
        agent: (hostId, folder) => ({
          devices: [{ deviceId: `${hostId}-d`, path: makeDeviceFile(join(folder, "files", hostId), SIZE) }],
        }),
        registry: { heartbeat: { intervalMs: 500, timeoutMs: TIMEOUT_MS, probationMs: 0, missedUntilSuspected: 6 } },
      }),
    );
    for (const hostId of ["h1", "h2", "h3"]) {
      await eventually(() => mesh.clients.registry.addHost({ hostId }), PATIENCE);
      await eventually(async () => expect((await mesh.device(`${hostId}-d`)).dirty).to.equal(false), PATIENCE);
    }
    await eventually(() => mesh.clients.registry.createDisk({ diskId: "x", sizeBytes: SIZE, hostId: "h2" }), PATIENCE);
  });
  afterEach(() => mesh?.[Symbol.asyncDispose]());

  const diskX = async (): Promise<Disk> => {
    const { disk } = await mesh.clients.registry.getDisk({ diskId: "x" });
    if (disk === undefined) throw new Error("the answer has no disk");
    return disk;
  };

  /** Socket path of the disk, by host. */
  const exportPaths = new Map<string, string>();

  const connectTo = async (hostId: string): Promise<void> => {
    const client = await NbdClient.connect({ socketPath: exportPaths.get(hostId) ?? "" });
    await client.disconnect();
  };

  /** Publishes the disk to the host, and returns a client of it. */
  const publish = async (
    hostId: string,
    onHostSilence: OnHostSilence = OnHostSilence.UNSPECIFIED,
  ): Promise<NbdClient> => {
    const { disk } = await eventually(
      () => mesh.clients.registry.publishDisk({ diskId: "x", hostId, onHostSilence }),
      PATIENCE,
    );
    const socketPath = disk?.publication?.exportPath ?? "";
    exportPaths.set(hostId, socketPath);
    return NbdClient.connect({ socketPath });
  };

  const outcomeOf = (write: Promise<unknown>): Promise<string> =>
    write.then(
      () => "written",
      () => "refused",
    );

  const stateOf = async (hostId: string) => (await mesh.clients.registry.getHost({ hostId })).host?.state;

  it("a stopped host is fenced, and its disk is written elsewhere; the host returns, its late write is refused, and it serves nothing", async () => {
    const first = await publish("h1");
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
      const second = await publish("h3");
      await second.write(0, SECOND, { fua: true });
      console.log(`      written elsewhere ${Math.round(performance.now() - startedMs)} ms after FenceHost was called`);
      expect((await diskX()).fence).to.equal(undefined);
      mesh.process("h1").signal("SIGCONT");
      expect(await late).to.equal("refused");
      await eventually(async () => expect(await stateOf("h1")).to.equal(HostState.ONLINE), PATIENCE);
      // Connected clients are disconnected, and new ones are refused.
      await eventually(async () => expect(await outcomeOf(connectTo("h1"))).to.equal("refused"), PATIENCE);
      expect(await second.read(0, BLOCK)).to.deep.equal(SECOND);
      await second.disconnect();
    } finally {
      mesh.process("h1").signal("SIGCONT");
    }
  });

  it("the disk of a dead host is fenced, and is intact on another host", async () => {
    const first = await publish("h1");
    await first.write(0, FIRST, { fua: true });
    const session = (await diskX()).publication?.sessionNumber ?? 0;
    await mesh.process("h1").kill();
    await eventually(() => mesh.clients.registry.unpublishDisk({ diskId: "x" }), PATIENCE);
    const second = await publish("h3");
    expect((await diskX()).publication?.sessionNumber).to.be.above(session);
    expect(await second.read(0, BLOCK)).to.deep.equal(FIRST);
    await second.disconnect();
  });

  it("on_host_silence FENCE fences a dead host's disk automatically; the host returns and serves nothing", async function () {
    leaveToVerify(this);
    const first = await publish("h1", OnHostSilence.FENCE);
    await first.write(0, FIRST, { fua: true });
    expect((await diskX()).publication?.onHostSilence).to.equal(OnHostSilence.FENCE);
    const { host } = await mesh.clients.registry.getHost({ hostId: "h1" });
    await mesh.process("h1").kill();
    await eventually(async () => expect((await diskX()).publication).to.equal(undefined), PATIENCE);
    const silentMs = Date.now() - (host?.lastHeartbeatTime?.getTime() ?? 0);
    console.log(
      `      unpublished ${silentMs} ms after a heartbeat that may have been the last; the timeout is ${TIMEOUT_MS} ms`,
    );
    const { fence } = await diskX();
    expect(fence).to.deep.include({ hostId: "h1", by: "disk-registry" });
    expect(fence?.reason).to.contain("no heartbeat");
    const second = await publish("h3");
    expect(await second.read(0, BLOCK)).to.deep.equal(FIRST);
    await second.write(0, SECOND, { fua: true });
    await mesh.process("h1").start();
    await eventually(async () => expect(await stateOf("h1")).to.equal(HostState.ONLINE), PATIENCE);
    expect((await diskX()).publication?.hostId).to.equal("h3");
    await second.disconnect();
  });

  it("a device on another dead host is named, and prevents publishing the disk", async function () {
    leaveToVerify(this);
    const client = await publish("h1");
    await client.disconnect();
    await mesh.process("h2").kill();
    await mesh.clients.registry.setHostState({ hostIds: ["h2"], state: HostState.DEAD, reason: "gone" });
    const { disks } = await mesh.clients.registry.fenceHost({ hostId: "h1" });
    expect(disks.map(({ diskId, complete }) => [diskId, complete])).to.deep.equal([["x", false]]);
    expect(disks[0]?.unaskedDevices.map(({ deviceId, hostId }) => [deviceId, hostId])).to.deep.equal([["h2-d", "h2"]]);
    expect(disks[0]?.unaskedDevices[0]?.reason).to.contain("DEAD");
    expect((await mesh.clients.registry.fenceHost({ hostId: "h1" })).disks.length, "asked again").to.equal(1);
    await mesh.process("h2").start();
    await eventually(async () => expect((await diskX()).publication).to.equal(undefined), PATIENCE);
    // A DEAD host gets a detach order only; a publication to it is refused.
    const error = await mesh.clients.registry
      .publishDisk({ diskId: "x", hostId: "h1" })
      .catch((reason: Error) => reason);
    expect((error as Error).message)
      .to.contain("h2-d")
      .and.to.contain("DEAD");
  });
});
