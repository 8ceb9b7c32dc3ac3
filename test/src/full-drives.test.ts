import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Claim } from "@diskmesh/api/internal";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES, ResourceExhaustedError } from "@diskmesh/domain";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { HEAD_BYTES, makeDeviceFile } from "./mesh/device-files.js";
import { BLOCK_BYTES, DiskContent } from "./mesh/disk-content.js";
import { registryFleet } from "./mesh/fleets.js";
import { devicesReady, retrying } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";
import { ended } from "./mesh/typed-lines.js";

const REGISTRY = "disk-registry-1";
/** Slice sizes of the hosts' drives in MiB, and their numbers of slices. */
const DRIVES = { "host-1": { sliceMib: 1, slices: 64 }, "host-2": { sliceMib: 4, slices: 40 } } as const;
type HostId = keyof typeof DRIVES;
/** A run of a drive. */
type OnDrive = Claim & { readonly deviceId: string };

/**
 * Disks fill a drive. After each step every disk has its own content and no other, and each drive has the content of its
 * disks, once, and nothing else.
 */
describe("a drive full of disks", () => {
  let mesh: TestMesh;
  /** Content of each disk. Blocks that were not written are zeros. */
  const written = new Map<string, DiskContent>();
  const removed = new Set<string>();
  let made = 0;

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: Object.keys(DRIVES),
        registry: { pools: { default: { sliceBytes: 4 * MIB_BYTES } } },
        agent: (hostId, folder) => {
          const { sliceMib, slices } = DRIVES[hostId as HostId];
          const path = makeDeviceFile(join(folder, "drives", hostId), HEAD_BYTES + slices * sliceMib * MIB_BYTES);
          return { devices: [{ deviceId: `${hostId}-drive`, path }] };
        },
      }),
    );
    await eventually(() => typed("add-host host-1 --slice-size 1MiB --wait"));
    await eventually(() => typed("add-host host-2 --wait"));
    await devicesReady(mesh);
    for (const [hostId, { sliceMib }] of Object.entries(DRIVES))
      expect((await mesh.device(`${hostId}-drive`)).sliceBytes, hostId).to.equal(sliceMib * MIB_BYTES);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const typed = (line: string) => ended(mesh, line, 0);

  const registry = () => mesh.clients.registry;
  const killed = async (...names: string[]): Promise<void> => {
    await Promise.all(names.map((name) => mesh.process(name).kill()));
    await Promise.all(names.map((name) => mesh.process(name).start()));
  };
  const everyThird = (from: number) => [...written.keys()].filter((_, index) => index % 3 === from);

  /** Creates disks on the drive until it is full. */
  async function fillUp(): Promise<void> {
    for (;;) {
      const diskId = `disk-${++made}`;
      const sizeBytes = MIB_BYTES * (1 + (made % 2));
      try {
        await registry().createDisk({ diskId, sizeBytes, hostId: "host-1" });
      } catch (error) {
        if (!(error instanceof ResourceExhaustedError)) throw error;
        return;
      }
      written.set(diskId, new DiskContent(diskId));
    }
  }

  /** Publishes the disk where it is, or else to one of the hosts, and calls with a client of it. */
  async function used<T>(diskId: string, use: (client: NbdClient) => Promise<T>): Promise<T> {
    const { disk } = await retrying("GetDisk", () => registry().getDisk({ diskId }));
    const hostId = disk?.publication?.hostId ?? (Number(diskId.slice("disk-".length)) % 2 === 0 ? "host-1" : "host-2");
    const client = await eventually(async () => {
      const { disk: published } = await registry().publishDisk({ diskId, hostId });
      return NbdClient.connect({ socketPath: published?.publication?.exportPath ?? "" });
    });
    expect(client.sizeBytes, `${diskId} is as large as the registry says`).to.equal(disk?.sizeBytes);
    try {
      return await use(client);
    } catch (error) {
      throw new Error(`${diskId} on ${hostId}: ${error instanceof Error ? error.message : error}`, { cause: error });
    } finally {
      await client.disconnect();
    }
  }

  /** Writes all of the disk. */
  const write = (diskId: string) =>
    used(diskId, async (client) => {
      const content = written.get(diskId);
      await content?.write(client, content.blocks, { toEnd: true });
    });

  const lineOf = (block: Buffer) => block.subarray(0, block.indexOf("\n")).toString("latin1");

  /** Returns the parts of all disks, and where they are, as the registry says. */
  async function partsOfDisks(): Promise<string[]> {
    const { disks } = await registry().listDisks({});
    const found = await Promise.all(disks.map(({ diskId }) => registry().getDisk({ diskId })));
    return found.flatMap(({ disk }) =>
      (disk?.parts ?? []).flatMap(({ sizeBytes, copies }, index) =>
        copies.map(({ deviceId, offsetBytes }) =>
          [disk?.diskId, index, disk?.parts.length, deviceId, offsetBytes, sizeBytes].join(" "),
        ),
      ),
    );
  }

  /** Returns the parts of all disks, and where they are, as the drives say: the later record of a part counts. */
  function partsOnDrives(claims: readonly OnDrive[]): string[] {
    const counts = new Map<string, number>();
    const parts = new Map<string, string>();
    const order = claims.map(({ record, ...claim }) => ({ layout: record?.layout ?? 0, record, ...claim }));
    order.sort((a, b) => a.sessionNumber - b.sessionNumber || a.layout - b.layout);
    for (const { diskId, deviceId, offsetBytes, record } of order) {
      counts.set(diskId, record?.partCount ?? 0);
      for (const part of record?.parts ?? []) {
        const place = [deviceId, offsetBytes + part.offsetBytes, part.sizeBytes].join(" ");
        parts.set(`${diskId} ${part.index}`, place);
      }
    }
    return [...parts].map(([part, place]) => `${part} ${counts.get(part.split(" ")[0] ?? "")} ${place}`);
  }

  async function claimsOf(hostId: string): Promise<OnDrive[]> {
    const deviceId = `${hostId}-drive`;
    const { claims, labelState, tableDamaged } = await mesh.agentClient(hostId).listClaims({ deviceId });
    expect([labelState, tableDamaged]).to.deep.equal(["LABEL_STATE_VALID", false]);
    return claims.map((claim) => ({ deviceId, ...claim }));
  }

  /** Waits until nothing is to be erased, and expects that the drives have the blocks of the disks, once, and no others. */
  async function checkAll(): Promise<void> {
    await eventually(async () => {
      const { devices } = await registry().listDevices({});
      expect(devices.filter(({ dirty }) => dirty).map(({ deviceId }) => deviceId)).to.deep.equal([]);
    });
    for (const [diskId, content] of written)
      expect(await used(diskId, (client) => content.faults(client))).to.deep.equal([]);
    const seen = new Map<string, string>();
    const hostIds = Object.keys(DRIVES).filter((hostId) => !removed.has(hostId));
    const claims = (await Promise.all(hostIds.map(claimsOf))).flat();
    expect(partsOnDrives(claims)).to.have.members(await partsOfDisks());
    for (const hostId of Object.keys(DRIVES)) {
      const heads = claims
        .filter(({ deviceId }) => deviceId === `${hostId}-drive`)
        .map(({ offsetBytes }) => offsetBytes);
      const isHead = (at: number) => heads.some((headAt) => at >= headAt && at < headAt + HEAD_BYTES);
      const bytes = readFileSync(join(mesh.folder, "drives", hostId));
      for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
        const block = bytes.subarray(at, at + BLOCK_BYTES);
        if ((at < HEAD_BYTES && !removed.has(hostId)) || isHead(at) || block.equals(Buffer.alloc(BLOCK_BYTES)))
          continue;
        const line = lineOf(block);
        const [diskId = "", , number] = line.split(" ");
        const place = `${hostId} at ${at}`;
        expect(Number(number) < (written.get(diskId)?.blocks ?? 0), `${place} has ${line}`).to.equal(true);
        expect(seen.get(line), `${line}, also on ${place}`).to.equal(undefined);
        seen.set(line, place);
      }
    }
    expect(seen.size, "blocks").to.equal([...written.values()].reduce((sum, { blocks }) => sum + blocks, 0));
  }

  async function untilMoved(diskIds: readonly string[]): Promise<void> {
    await eventually(async () => {
      for (const diskId of diskIds) {
        const { disk } = await registry().getDisk({ diskId });
        const hosts = disk?.parts.flatMap(({ copies }) => copies.map(({ hostId }) => hostId));
        expect(new Set(hosts), JSON.stringify(disk?.parts)).to.deep.equal(new Set(["host-2"]));
      }
    });
  }

  it("keeps each disk's bytes while agent and registry are killed", async () => {
    await fillUp();
    expect(written.size).to.be.above(20);
    expect((await mesh.device("host-1-drive")).freeBytes).to.be.at.most(2 * MIB_BYTES);
    expect((await mesh.device("host-1-drive")).diskCount).to.equal(written.size);
    for (const diskId of written.keys()) await write(diskId);
    await killed(REGISTRY, "host-1");
    await checkAll();
  });

  it("has nothing left of deleted disks, and their slices go to those that grow", async () => {
    for (const diskId of everyThird(1)) {
      await retrying("UnpublishDisk", () => registry().unpublishDisk({ diskId }));
      await registry().deleteDisk({ diskId });
      written.delete(diskId);
    }
    await killed("host-1", REGISTRY);
    await checkAll();
    const grown = everyThird(0).slice(0, 4);
    for (const diskId of grown) {
      const { disk } = await registry().getDisk({ diskId });
      const sizeBytes = (disk?.sizeBytes ?? 0) + MIB_BYTES;
      await retrying("ResizeDisk", () => registry().resizeDisk({ diskId, sizeBytes }));
    }
    await killed(REGISTRY);
    await eventually(async () => {
      const { disks } = await registry().listDisks({});
      expect(disks.some(({ publication }) => publication?.changePending)).to.equal(false);
    });
    await checkAll();
    for (const diskId of grown) await write(diskId);
    await checkAll();
  });

  it("gives disks to a drive with slices of another size, and their slices to new disks", async () => {
    const moved = everyThird(2).slice(0, 5);
    for (const diskId of moved.slice(3)) await retrying("UnpublishDisk", () => registry().unpublishDisk({ diskId }));
    for (const diskId of moved)
      await retrying("MigrateDisk", () => registry().migrateDisk({ diskId, hostId: "host-2" }));
    await killed(REGISTRY, "host-1");
    await untilMoved(moved);
    await checkAll();
    await fillUp();
    await checkAll();
    for (const diskId of [...written.keys()].slice(-3)) await write(diskId);
    await checkAll();
  });

  it("is empty once its host is removed, and its disks are on the other drive", async () => {
    const { disks } = await registry().listDisks({ hostId: "host-1" });
    for (const { diskId } of disks) await retrying("UnpublishDisk", () => registry().unpublishDisk({ diskId }));
    const removal = eventually(() => typed("remove-host host-1 --wait"));
    await eventually(async () =>
      expect((await registry().listDisks({ deviceHostId: "host-2" })).disks).to.not.equal([]),
    );
    await killed("host-1");
    await removal;
    removed.add("host-1");
    await untilMoved([...written.keys()]);
    for (const diskId of written.keys()) {
      const { disk } = await registry().getDisk({ diskId });
      if (disk?.publication === undefined)
        await retrying("PublishDisk", () => registry().publishDisk({ diskId, hostId: "host-2" }));
    }
    await checkAll();
  });
});
