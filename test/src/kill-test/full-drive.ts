import { closeSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import type { Disk } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES, ResourceExhaustedError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { HEAD_BYTES, makeDeviceFile } from "../mesh/device-files.js";
import { registryFleet } from "../mesh/fleets.js";
import { devicesReady, retrying } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { patternOf } from "../mesh/watched-disk.js";
import { Random } from "../random.js";
import { marksOn } from "./drive-marks.js";

const BLOCK_BYTES = 4_096;
const CHUNK_BYTES = 64 * BLOCK_BYTES;
const RAW_BYTES = 4 * MIB_BYTES;
const ZEROS = Buffer.alloc(RAW_BYTES);
const PATIENCE = { everyMs: 200, timeoutMs: 600_000 };
/** Disks that are used side by side. */
const USED_TOGETHER = 4;
const SLICE_MIB = { "host-1": 1, "host-2": 4 } as const;
const HOSTS = Object.keys(SLICE_MIB) as (keyof typeof SLICE_MIB)[];
const DRIVE = "host-1-drive";
const KILLED = ["disk-registry-1", ...HOSTS];
/** Sizes of disks in KiB. The first ones take a slice, the others two and three of 1 MiB, and more. */
const SIZES_KIB = [512, 960, 1_536, 2_048];
const LARGE_SIZES_KIB = [512, 3_584, 5_120];
/** Mean number of slices that a disk of SIZES_KIB takes. */
const SLICES_PER_DISK = 1.75;
/** Time in ms between two kills, at most. */
const KILL_AFTER_MS = 6_000;

export interface FullDriveOptions {
  readonly disks: number;
  readonly seed: number;
  readonly report: (line: string) => void;
}

/** Counts of what was done. */
export interface FullDriveResult {
  readonly violations: readonly string[];
  readonly made: number;
  readonly grown: number;
  readonly moved: number;
  readonly kills: number;
  /** Complete reads of disks, and of all drives. */
  readonly diskReads: number;
  readonly driveReads: number;
}

/**
 * Fills a drive with disks, each of whose blocks has a pattern of its own: makes, writes, deletes, grows and moves them,
 * and removes the host, while agents and registry are killed. After each step every disk must have its own bytes, and
 * the drives these bytes once, and nothing else.
 */
export async function runFullDrive(options: FullDriveOptions): Promise<FullDriveResult> {
  await using mesh = await startMesh(options.disks);
  const drive = new FullDrive(mesh, options);
  await drive.run();
  return drive.done;
}

async function startMesh(disks: number): Promise<TestMesh> {
  const slices = Math.ceil(disks * SLICES_PER_DISK);
  const mesh = await TestMesh.start({
    ...registryFleet({
      hostIds: HOSTS,
      registry: { pools: { default: { sliceBytes: SLICE_MIB["host-2"] * MIB_BYTES } } },
      agent: (hostId, folder) => {
        const sliceBytes = SLICE_MIB[hostId as keyof typeof SLICE_MIB] * MIB_BYTES;
        const path = makeDeviceFile(join(folder, "drives", hostId), HEAD_BYTES + slices * sliceBytes);
        return { devices: [{ deviceId: `${hostId}-drive`, path }], engine: "node" };
      },
    }),
    deadlineMs: 30_000,
  });
  for (const line of ["add-host host-1 --slice-size 1MiB --wait", "add-host host-2 --wait"])
    await eventually(async () => {
      const { code, out, err } = await mesh.typed(...line.split(" "));
      if (code !== 0) throw new Error(`${line}: ${out}${err}`);
    }, PATIENCE);
  await devicesReady(mesh);
  return mesh;
}

class FullDrive {
  readonly #violations = new Set<string>();
  /** Blocks of each disk that were written; those behind them are zeros. */
  readonly #written = new Map<string, number>();
  readonly #random: Random;
  #isRemoved = false;
  #made = 0;
  #grown = 0;
  #moved = 0;
  #kills = 0;
  #diskReads = 0;
  #driveReads = 0;

  constructor(
    private readonly mesh: TestMesh,
    private readonly options: FullDriveOptions,
  ) {
    this.#random = new Random(options.seed);
  }

  get done(): FullDriveResult {
    const counts = { made: this.#made, grown: this.#grown, moved: this.#moved, kills: this.#kills };
    const reads = { diskReads: this.#diskReads, driveReads: this.#driveReads };
    return { violations: [...this.#violations], ...counts, ...reads };
  }

  async run(): Promise<void> {
    await this.#step("made and written", async () => {
      await this.#fillUp(SIZES_KIB);
      await this.#writeAll();
    });
    await this.#step("every third deleted", () => this.#deleteSome(this.#everyThird(1)));
    await this.#step("some grown", () => this.#growSome(this.#everyThird(0).filter((_, index) => index % 3 === 0)));
    await this.#step("filled up with disks of several runs", async () => {
      await this.#fillUp(LARGE_SIZES_KIB);
      await this.#writeAll();
    });
    await this.#step("some moved to a drive of another slice size", () => this.#moveSome(this.#everyThird(2)));
    await this.#step("removed the host", () => this.#removeHost());
    await eventually(() => this.#requireNoTrouble(), PATIENCE);
  }

  get #registry() {
    return this.mesh.clients.registry;
  }

  /** Acts while processes are killed, and checks everything after the last one is up again. */
  async #step(name: string, act: () => Promise<void>): Promise<void> {
    if (this.#violations.size > 0) return;
    const startedAtMs = performance.now();
    const kills = this.#kills;
    let isOver = false;
    const killing = this.#kill(() => isOver);
    await act().finally(() => {
      isOver = true;
    });
    await killing;
    const actedMs = performance.now() - startedAtMs;
    await this.#checkAll();
    const { freeBytes, sizeBytes, diskCount } = await retrying("GetDevice", () => this.mesh.device(DRIVE));
    this.options.report(
      `${name}: ${this.#written.size} disks, ${diskCount} on the drive, ${Math.round(100 * (1 - freeBytes / sizeBytes))} % used, ` +
        `${this.#kills - kills} kills in ${Math.round(actedMs / 1_000)} s, checked after ${Math.round((performance.now() - startedAtMs) / 1_000)} s`,
    );
  }

  /** Kills at least one process, and others until it is over. */
  async #kill(isOver: () => boolean): Promise<void> {
    do {
      await new Promise((resolve) => setTimeout(resolve, this.#random.between(0, KILL_AFTER_MS)));
      const process = this.mesh.process(this.#random.pick(KILLED));
      await process.kill();
      this.#kills += 1;
      await process.start();
    } while (!isOver());
  }

  /** Creates disks on the drive until it is full. */
  async #fillUp(sizesKib: readonly number[]): Promise<void> {
    const [smallest = 0] = sizesKib;
    for (let kib = this.#random.pick(sizesKib); ; kib = this.#random.pick(sizesKib)) {
      if ((await this.#create(kib)) || (kib !== smallest && (await this.#create(smallest)))) continue;
      return;
    }
  }

  /** Returns false when the drive has no room. */
  async #create(kib: number): Promise<boolean> {
    const diskId = `disk-${this.#made + 1}`;
    const request = { diskId, sizeBytes: kib * 1_024, hostId: "host-1" };
    if (!(await this.#whenErased("CreateDisk", () => this.#registry.createDisk(request)))) return false;
    this.#made += 1;
    this.#written.set(diskId, 0);
    return true;
  }

  /** Calls again once nothing is left to be erased, if there was no room before. Returns false when there is none. */
  async #whenErased(name: string, call: () => Promise<unknown>): Promise<boolean> {
    const hasRoom = () =>
      call().then(
        () => true,
        (error: unknown) => {
          if (error instanceof ResourceExhaustedError) return false;
          throw error;
        },
      );
    if (await retrying(name, hasRoom)) return true;
    await this.#untilErased();
    return retrying(name, hasRoom);
  }

  #untilErased(): Promise<void> {
    return eventually(async () => {
      const { devices } = await this.#registry.listDevices({});
      const dirty = devices.filter((device) => device.dirty).map(({ deviceId }) => deviceId);
      if (dirty.length > 0) throw new Error(`${dirty.join(", ")} are not erased`);
    }, PATIENCE);
  }

  #everyThird(from: number): string[] {
    return [...this.#written.keys()].filter((_, index) => index % 3 === from);
  }

  #writeAll(): Promise<void> {
    return sideBySide([...this.#written.keys()], (diskId) => eventually(() => this.#write(diskId), PATIENCE));
  }

  #write(diskId: string): Promise<void> {
    return this.#used(diskId, async (client) => {
      const blocks = client.sizeBytes / BLOCK_BYTES;
      const step = CHUNK_BYTES / BLOCK_BYTES;
      for (let block = this.#written.get(diskId) ?? 0; block < blocks; block += step) {
        const count = Math.min(step, blocks - block);
        const data = Array.from({ length: count }, (_, index) => patternOf(diskId, block + index));
        await client.write(block * BLOCK_BYTES, Buffer.concat(data));
      }
      await client.flush();
      this.#written.set(diskId, blocks);
    });
  }

  async #deleteSome(diskIds: readonly string[]): Promise<void> {
    await sideBySide(diskIds, async (diskId) => {
      await this.#unpublish(diskId);
      await retrying("DeleteDisk", () => this.#registry.deleteDisk({ diskId }));
      this.#written.delete(diskId);
    });
  }

  async #growSome(diskIds: readonly string[]): Promise<void> {
    await sideBySide(diskIds, async (diskId) => {
      const { disk } = await retrying("GetDisk", () => this.#registry.getDisk({ diskId }));
      const sizeBytes = (disk?.sizeBytes ?? 0) + MIB_BYTES;
      if (await this.#whenErased("ResizeDisk", () => this.#registry.resizeDisk({ diskId, sizeBytes })))
        this.#grown += 1;
    });
    await eventually(async () => {
      const waiting = (await this.#disks()).filter(({ publication }) => publication?.changePending);
      if (waiting.length > 0) throw new Error(`${waiting.length} disks are not as large as they will be`);
    }, PATIENCE);
  }

  async #moveSome(diskIds: readonly string[]): Promise<void> {
    await sideBySide(diskIds, async (diskId) => {
      await retrying("MigrateDisk", () => this.#registry.migrateDisk({ diskId, hostId: "host-2" }));
      this.#moved += 1;
    });
    await this.#untilOn("host-2", diskIds);
  }

  async #removeHost(): Promise<void> {
    const left = (await this.#disks()).filter((disk) => !isOn(disk, "host-2"));
    const used = (await this.#disks()).filter(({ publication }) => publication?.hostId === "host-1");
    await sideBySide(used, ({ diskId }) => this.#unpublish(diskId));
    await eventually(async () => {
      const { result } = await this.#registry.removeHost({ hostId: "host-1" });
      if (result?.code !== "ACTION_CODE_S_OK") throw new Error(result?.message);
    }, PATIENCE);
    this.#isRemoved = true;
    this.#moved += left.length;
    await this.#untilOn("host-2", [...this.#written.keys()]);
  }

  #unpublish(diskId: string): Promise<unknown> {
    return retrying("UnpublishDisk", () => this.#registry.unpublishDisk({ diskId }));
  }

  async #disks(): Promise<readonly Disk[]> {
    const all = { pageSize: 1_000 };
    return (await retrying("ListDisks", () => this.#registry.listDisks(all))).disks;
  }

  #untilOn(hostId: string, diskIds: readonly string[]): Promise<void> {
    return eventually(async () => {
      const away = (await this.#disks()).filter((disk) => diskIds.includes(disk.diskId) && !isOn(disk, hostId));
      if (away.length > 0) throw new Error(`${away.length} disks are not on ${hostId}: ${JSON.stringify(away[0])}`);
    }, PATIENCE);
  }

  /** Publishes the disk where it is, or else to one of the hosts, and calls with a client of it. */
  async #used(diskId: string, use: (client: NbdClient) => Promise<void>): Promise<void> {
    const { disk } = await this.#registry.getDisk({ diskId });
    // Half of the disks are used where they are, until their host is removed, and the others from the other host.
    const isEven = Number(diskId.slice("disk-".length)) % 2 === 0;
    const hostId = disk?.publication?.hostId ?? (isEven && !this.#isRemoved ? "host-1" : "host-2");
    const { disk: published } = await this.#registry.publishDisk({ diskId, hostId });
    const client = await NbdClient.connect({ socketPath: published?.publication?.exportPath ?? "" });
    try {
      if (client.sizeBytes !== disk?.sizeBytes) throw new Error(`${diskId} has ${client.sizeBytes} bytes on ${hostId}`);
      await use(client);
    } finally {
      await client.disconnect();
    }
  }

  /** Waits until nothing is to be erased, and compares all bytes of disks and drives. */
  async #checkAll(): Promise<void> {
    await this.#untilErased();
    await sideBySide([...this.#written.keys()], (diskId) => eventually(() => this.#check(diskId), PATIENCE));
    const seen = new Set<string>();
    for (const hostId of HOSTS) this.#checkDrive(hostId, seen);
    this.#driveReads += 1;
    const blocks = [...this.#written.values()].reduce((sum, count) => sum + count, 0);
    if (seen.size !== blocks) this.#violations.add(`the drives have ${seen.size} blocks of disks, not ${blocks}`);
  }

  #check(diskId: string): Promise<void> {
    return this.#used(diskId, async (client) => {
      const written = this.#written.get(diskId) ?? 0;
      for (let offset = 0; offset < client.sizeBytes; offset += CHUNK_BYTES) {
        const data = await client.read(offset, Math.min(CHUNK_BYTES, client.sizeBytes - offset));
        for (let at = 0; at < data.length; at += BLOCK_BYTES) {
          const block = (offset + at) / BLOCK_BYTES;
          const expected = block < written ? patternOf(diskId, block) : ZEROS.subarray(0, BLOCK_BYTES);
          const found = data.subarray(at, at + BLOCK_BYTES);
          if (!found.equals(expected)) this.#violations.add(`block ${block} of ${diskId} holds ${lineOf(found)}`);
        }
      }
      this.#diskReads += 1;
    });
  }

  /** Compares each block of the drive with the disks' blocks, and adds it to those that were seen. */
  #checkDrive(hostId: string, seen: Set<string>): void {
    const file = openSync(join(this.mesh.folder, "drives", hostId), "r");
    const bytes = Buffer.alloc(RAW_BYTES);
    const readAt = (offset: number, length: number) => {
      const part = Buffer.alloc(length);
      return part.subarray(0, readSync(file, part, 0, length, offset));
    };
    const isMark = marksOn(readAt, this.#written.keys());
    for (let offset = 0; ; offset += RAW_BYTES) {
      const length = readSync(file, bytes, 0, RAW_BYTES, offset);
      if (length === 0) break;
      if (bytes.subarray(0, length).equals(ZEROS.subarray(0, length))) continue;
      for (let at = 0; at < length; at += BLOCK_BYTES) {
        const block = bytes.subarray(at, at + BLOCK_BYTES);
        if (block.equals(ZEROS.subarray(0, BLOCK_BYTES)) || isMark(offset + at)) continue;
        this.#noteBlock(block, `${hostId} at ${offset + at}`, seen);
      }
    }
    closeSync(file);
  }

  #noteBlock(block: Buffer, place: string, seen: Set<string>): void {
    const line = lineOf(block);
    const [, diskId = "", , number] = line.split(" ");
    const isWritten = Number(number) < (this.#written.get(diskId) ?? 0);
    if (!isWritten || !block.equals(patternOf(diskId, Number(number)))) this.#violations.add(`${place} has ${line}`);
    if (seen.has(line)) this.#violations.add(`${place} has ${line}, as another place has`);
    seen.add(line);
  }

  async #requireNoTrouble(): Promise<void> {
    const { devices } = await this.#registry.listDevices({});
    const things = [...devices.filter(({ hostId }) => hostId === "host-2"), ...(await this.#disks())];
    const troubles = things.flatMap(({ trouble }) => (trouble === undefined ? [] : [trouble.sentence]));
    if (troubles.length > 0) throw new Error(`${troubles.length} troubles: ${troubles[0]}`);
  }
}

function isOn({ parts }: Disk, hostId: string): boolean {
  return parts.every(({ copies }) => copies.every((copy) => copy.hostId === hostId));
}

const lineOf = (block: Buffer): string => {
  const [line = ""] = block.toString("latin1").split("\n");
  return line.slice(0, 80);
};

/** Calls for each of the things, some at a time. */
async function sideBySide<T>(things: readonly T[], act: (thing: T) => Promise<unknown>): Promise<void> {
  const left = [...things];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await act(next);
  };
  await Promise.all(Array.from({ length: USED_TOGETHER }, work));
}
