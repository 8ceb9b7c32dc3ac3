import { join } from "node:path";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { endDaemons } from "../end-sessions.js";
import { NbdClient } from "../nbd/client.js";
import { keyOf } from "../testing/test-registry.js";
import { TwoAgents } from "../testing/two-agents.js";

const BLOCK_BYTES = 4096;

describe("a storage daemon whose device's host no longer answers", () => {
  before(function () {
    skipWithout(this, "qemu-storage-daemon");
  });
  const agents = TwoAgents.forAllTests({
    engine: "qemu",
    remoteIoTimeoutMs: 2_000,
    tuning: { rescanIntervalMs: 500 },
  });

  const socketOf = (diskId: string) => join(agents.one.baseFolder, "exports", `${diskId}.sock`);

  // After the end of the agents, which would make the devices again.
  after(async () => {
    if (agents.one !== undefined) await endDaemons(agents.one.baseFolder);
  });

  it("fails its I/O after the timeout, although no connection breaks, and serves again once the host answers", async () => {
    const { number } = await agents.publishOne("disk-1", { on: agents.two, name: "a" }, agents.one);
    const socketPath = socketOf("disk-1");
    const client = await NbdClient.connect({ socketPath });
    await client.write(0, Buffer.alloc(BLOCK_BYTES, 1), { fua: true });
    agents.two.process.signal("SIGSTOP");
    try {
      await rejection(client.write(0, Buffer.alloc(BLOCK_BYTES, 2), { fua: true }));
    } finally {
      agents.two.process.signal("SIGCONT");
    }
    await client.ended;
    const again = await eventually(() => NbdClient.connect({ socketPath }));
    await again.write(0, Buffer.alloc(BLOCK_BYTES, 3), { fua: true });
    await again.disconnect();
    expect(agents.one.process.logs).to.match(
      new RegExp(`"sessionNumber":${number}.*did not answer for 2000 ms.*export lost`),
    );
  });

  it("serves on a disk whose limits delay an answer beyond the timeout, because the host answers", async () => {
    agents.session += 1;
    const { session: number, registry, ordersOne, ordersTwo } = agents;
    const [outcome] = await ordersTwo.sessionOutcomes(["host-2-b"], number, "disk-2", agents.one.hostId);
    const reach = { blockAddress: outcome?.blockAddress ?? "", sessionKey: keyOf(number) };
    await ordersOne.client.exportDisk({
      bootId: ordersOne.bootId,
      stamp: registry.stamp(),
      diskId: "disk-2",
      sessionNumber: number,
      blockSizeBytes: BLOCK_BYTES,
      extents: [agents.extentOn(agents.two, "b", reach)],
      limits: { readIops: 1 },
    });
    const client = await NbdClient.connect({ socketPath: socketOf("disk-2") });
    await Promise.all(Array.from({ length: 8 }, (_, block) => client.read(block * BLOCK_BYTES, BLOCK_BYTES)));
    client.destroy();
    expect(agents.one.process.logs).not.to.match(/"diskId":"disk-2".*export lost/);
  });
});
