import { randomInt } from "node:crypto";
import { ExportKind } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, DiskContent } from "../mesh/disk-content.js";
import { registryFleet } from "../mesh/fleets.js";
import { addHosts } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";

const DISK = "again";
const DISK_BYTES = 16 * MIB_BYTES;
/** A copy of the disk takes longer than each of its attachments. */
const COPY_BYTES_PER_SECOND = 4 * MIB_BYTES;
/** Bytes that are copied between two changes of the disk's use. */
const STEP_BYTES = 4 * MIB_BYTES;
/**
 * More changes than a move needs that goes on: one that begins anew with each ends never. A change on a busy machine may
 * lose the bytes of the last second, or all of them when a flush takes longer than the seal's second.
 */
const MAX_CHANGES = 60;

describe("a disk that is attached and detached again and again while it moves", function () {
  this.timeout(600_000);
  let mesh: TestMesh;

  before(async () => {
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["host-1", "host-2"],
        devices: { count: 1, sizeBytes: DISK_BYTES + 4 * MIB_BYTES },
        registry: { moves: { bytesPerSecondOfHost: COPY_BYTES_PER_SECOND } },
      }),
    );
    await addHosts(mesh);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const part = async () => {
    const { disk } = await mesh.clients.registry.getDisk({ diskId: DISK });
    return disk?.parts[0];
  };
  const hasLeft = async () => {
    const { copies = [] } = (await part()) ?? {};
    return copies.length === 1 && copies[0]?.deviceId === "host-2-device-1";
  };
  /** Resolves once more bytes are copied than at the first look, or the disk has left its host. */
  const moreCopied = async (): Promise<void> => {
    let firstBytes: number | undefined;
    await eventually(async () => {
      if (await hasLeft()) return;
      const copiedBytes = (await part())?.move?.copiedBytes ?? 0;
      firstBytes ??= copiedBytes > 0 ? copiedBytes : undefined;
      expect(copiedBytes).to.be.at.least((firstBytes ?? DISK_BYTES) + STEP_BYTES);
    });
  };

  it("leaves its host with every acknowledged write, because the copy goes on each time", async () => {
    const { registry } = mesh.clients;
    const request = { diskId: DISK, sizeBytes: DISK_BYTES, hostId: "host-1", exportKind: ExportKind.NBD };
    await eventually(() => registry.createDisk(request));
    const content = new DiskContent(DISK);
    const use = async (hostId: string, work: (client: NbdClient) => Promise<void>): Promise<void> => {
      const { disk } = await registry.publishDisk({ diskId: DISK, hostId });
      const client = await NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
      await work(client);
      await client.disconnect();
      await registry.unpublishDisk({ diskId: DISK });
    };
    await use("host-1", (client) => content.write(client, 0, { toEnd: true, fua: false }));
    await registry.removeHost({ hostId: "host-1" });
    let changes = 0;
    for (; changes < MAX_CHANGES && !(await hasLeft()); changes++) {
      if (changes % 2 === 0) {
        await moreCopied();
        continue;
      }
      await use("host-2", async (client) => {
        let isOver = false;
        const writing = (async () => {
          while (!isOver) await content.write(client, randomInt(DISK_BYTES / BLOCK_BYTES), { fua: randomInt(8) === 0 });
        })();
        await moreCopied().finally(() => {
          isOver = true;
        });
        await writing;
      });
    }
    expect(await hasLeft(), `left host-1 within ${MAX_CHANGES} changes`).to.equal(true);
    await use("host-2", async (client) => {
      expect(await content.faults(client)).to.deep.equal([]);
    });
    await eventually(async () => {
      const { result } = await registry.removeHost({ hostId: "host-1" });
      expect(result?.code, result?.message).to.equal("ACTION_CODE_S_OK");
    });
  });
});
