import { join } from "node:path";
import { CopyState, type Device, type Disk } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { HEAD_BYTES, makeDeviceFile } from "../mesh/device-files.js";
import { BLOCK_BYTES, DiskContent } from "../mesh/disk-content.js";
import { registryFleet } from "../mesh/fleets.js";
import { TestMesh } from "../mesh/test-mesh.js";

const REGISTRY = "disk-registry-1";
const [SOURCE, TARGET, HOLDER] = ["host-1", "host-2", "host-3"] as const;
const SLICES_BYTES = 2 * MIB_BYTES;
/** Size of a disk that takes both slices of a device. */
const DISK_BYTES = SLICES_BYTES - HEAD_BYTES;
const PATIENCE = { everyMs: 5 };

interface Seen {
  readonly disk: Disk;
  /** Device that the disk leaves. */
  readonly source: Device;
  /** Logs of the agent that has the disk in use. */
  readonly holderLogs: string;
}

const targetOf = ({ disk }: Seen) => disk.parts[0]?.copies.find(({ state }) => state === CopyState.COPYING);
const isCutOver = ({ disk, source }: Seen): boolean =>
  disk.parts[0]?.copies.some((copy) => copy.state === CopyState.COUNTS && copy.deviceId !== source.deviceId) === true;

/** Steps of a move in their order. A step that was passed within one look counts as seen. */
const STEPS: readonly (readonly [string, (seen: Seen) => boolean])[] = [
  ["a target is allocated", (seen) => targetOf(seen) !== undefined],
  [
    "the target has a session",
    (seen) => targetOf(seen) !== undefined && seen.disk.parts[0]?.move?.message !== "its copy is about to begin",
  ],
  ["bytes are copied", ({ disk }) => (disk.parts[0]?.move?.copiedBytes ?? 0) > 0],
  ["the holder says that both copies are equal", ({ holderLogs }) => holderLogs.includes('"phase":"bound"')],
  ["the target counts", isCutOver],
  ["the source is released", ({ source }) => source.diskId === ""],
  ["the source is erased", ({ source }) => source.diskId === "" && !source.dirty],
];

describe("a move whose registry is killed at each step, and followed by the next leader", () => {
  let mesh: TestMesh;

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: [SOURCE, TARGET, HOLDER],
        registry: { moves: { bytesPerSecondOfHost: 2 * MIB_BYTES } },
        agent: (hostId, folder) => {
          const names = hostId === HOLDER ? [] : [1, 2].map((index) => `${hostId}-drive-${index}`);
          return {
            devices: names.map((deviceId) => ({
              deviceId,
              path: makeDeviceFile(join(folder, "files", deviceId), HEAD_BYTES + SLICES_BYTES),
            })),
            maxEraseBytesPerSecond: MIB_BYTES,
            tuning: { copy: { chunkBytes: 128 * 1_024, maxInFlight: 2, flushEveryBytes: MIB_BYTES } },
          };
        },
      }),
    );
    for (const hostId of [SOURCE, TARGET]) await eventually(() => mesh.clients.registry.addHost({ hostId }), PATIENCE);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const registry = () => mesh.clients.registry;
  const open = async (diskId: string): Promise<NbdClient> => {
    const { disk } = await eventually(() => registry().publishDisk({ diskId, hostId: HOLDER }), PATIENCE);
    return NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
  };

  async function lookAt(diskId: string, sourceId: string): Promise<Seen> {
    const [{ disk }, { device: source }] = await Promise.all([
      registry().getDisk({ diskId }),
      registry().getDevice({ deviceId: sourceId }),
    ]);
    if (disk === undefined || source === undefined) throw new Error("the answers lack the disk or its source");
    return { disk, source, holderLogs: mesh.process(HOLDER).logs };
  }

  for (const [diskId, isUsed] of [
    ["idle", false],
    ["used", true],
  ] as const)
    it(`ends on one copy, which has every write: ${diskId}`, async () => {
      await eventually(() => registry().createDisk({ diskId, sizeBytes: DISK_BYTES, hostId: SOURCE }), PATIENCE);
      const client = await open(diskId);
      const content = new DiskContent(diskId);
      const write = (block: number) => content.write(client, block, { fua: block % 3 === 0 });
      for (let block = 0; block < DISK_BYTES / BLOCK_BYTES; block++) await write(block);
      let isOver = false;
      const writing = (async () => {
        for (let count = 0; isUsed && !isOver; count++) await write((count * 37) % content.blocks);
      })();
      if (!isUsed) {
        await client.flush();
        await client.disconnect();
        await eventually(() => registry().unpublishDisk({ diskId }), PATIENCE);
      }
      const [sourceId = ""] =
        (await registry().getDisk({ diskId })).disk?.parts[0]?.copies.map((c) => c.deviceId) ?? [];
      await registry().migrateDisk({ diskId, hostId: TARGET });
      for (const [name, isReached] of STEPS) {
        if (!isUsed && name.includes("holder")) continue;
        await eventually(async () => {
          const seen = await lookAt(diskId, sourceId);
          return isReached(seen) || (isCutOver(seen) && !name.includes("source"));
        }, PATIENCE);
        await mesh.process(REGISTRY).kill();
        await mesh.process(REGISTRY).start();
      }
      const { disk, source } = await eventually(() => lookAt(diskId, sourceId), PATIENCE);
      expect(
        disk.parts.map(({ copies, move }) => [copies.map(({ state, hostId }) => [state, hostId]), move]),
      ).to.deep.equal([[[[CopyState.COUNTS, TARGET]], undefined]]);
      expect(source).to.include({ diskId: "", dirty: false });
      isOver = true;
      await writing;
      const reader = isUsed ? client : await open(diskId);
      expect(await content.faults(reader)).to.deep.equal([]);
      await reader.disconnect();
    });
});
