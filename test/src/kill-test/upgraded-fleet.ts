import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Device, Disk } from "@diskmesh/api/registry";
import { MIB_BYTES, messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { devicesReady, retrying } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { Random } from "../random.js";
import { repositoryFolder } from "../repository-folder.js";
import { type Versions, versionsIn } from "../versions/versions.js";
import { BLOCK_BYTES, CheckedDisk, parseBlock } from "./checked-disk.js";
import { marksOn } from "./drive-marks.js";

const PATIENCE = { everyMs: 200, timeoutMs: 600_000 };
const DRIVE_BYTES = 8 * MIB_BYTES;
/** Equal drives by host. Those of the last host are free until the others are upgraded. */
const DRIVES = { "host-1": 3, "host-2": 3, "host-3": 6 } as const;
const [LEAVING, STAYING, NEW] = ["host-1", "host-2", "host-3"] as const;
const REGISTRY = "disk-registry";
const AGENTS = [LEAVING, STAYING, NEW];
/** Time in ms between two kills, at most. */
const KILL_AFTER_MS = 1_500;
/** Time in ms in which processes are killed between two steps. */
const BETWEEN_STEPS_MS = 4_000;

export interface UpgradedFleetOptions {
  /** Number of kills after which no further fleet is upgraded. */
  readonly kills: number;
  readonly seed: number;
  readonly report: (line: string) => void;
}

/** Counts of what was done, over all fleets. */
export interface UpgradedFleetResult {
  readonly violations: readonly string[];
  readonly fleets: number;
  readonly kills: number;
  readonly writes: number;
  readonly diskReads: number;
  readonly driveReads: number;
  readonly longestPauseMs: number;
}

/**
 * Upgrades fleets of the last release, whose drives are full, while their disks are written and compared, and agents and
 * registry are killed at any moment. Then a disk is deleted, so that its drive gets slices and a label; disks are made
 * there and grown; and a host is removed, so that its disks, as large as drives were, move to several runs of others.
 */
export async function upgradeFleets(options: UpgradedFleetOptions): Promise<UpgradedFleetResult> {
  const { ensureLastRelease } = await import(join(repositoryFolder, "deploy/local/bootstrap/last-release.mjs"));
  const versions = versionsIn(await ensureLastRelease(repositoryFolder));
  const random = new Random(options.seed);
  const all = { violations: [] as string[], fleets: 0, kills: 0, writes: 0, diskReads: 0, driveReads: 0 };
  let longestPauseMs = 0;
  while (all.kills < options.kills && all.violations.length === 0) {
    const fleet = await UpgradedFleet.start(versions, random, options.report);
    try {
      await fleet.run();
    } finally {
      await fleet[Symbol.asyncDispose]();
    }
    const { done } = fleet;
    all.violations.push(...done.violations);
    all.fleets += 1;
    all.kills += done.kills;
    all.writes += done.writes;
    all.diskReads += done.diskReads;
    all.driveReads += done.driveReads;
    longestPauseMs = Math.max(longestPauseMs, done.longestPauseMs);
    options.report(`fleet ${all.fleets}: ${JSON.stringify({ ...done, violations: done.violations.length })}`);
  }
  return { ...all, longestPauseMs: Math.round(longestPauseMs) };
}

class UpgradedFleet implements AsyncDisposable {
  readonly #violations = new Set<string>();
  readonly #disks = new Map<string, CheckedDisk>();
  /** Disks that were deleted, whose counts remain. */
  readonly #ended: CheckedDisk[] = [];
  /** Host that uses each disk. */
  readonly #holders = new Map<string, string>();
  #kills = 0;
  #driveReads = 0;
  #isOver = false;
  /** The kill or replacement of a process that goes on. */
  #turn: Promise<unknown> = Promise.resolve();
  #killing: Promise<void> | undefined;

  private constructor(
    private readonly mesh: TestMesh,
    private readonly versions: Versions,
    private readonly random: Random,
    private readonly report: (line: string) => void,
  ) {}

  static async start(versions: Versions, random: Random, report: (line: string) => void): Promise<UpgradedFleet> {
    const config = { heartbeat: { intervalMs: 500, timeoutMs: 60_000, missedUntilSuspected: 60 } };
    const mesh = await TestMesh.start({
      processes: [
        { name: REGISTRY, service: "disk-registry", config, mainFile: versions.last("disk-registry") },
        ...Object.entries(DRIVES).map(([name, count]) => ({
          ...{ name, service: "disk-agent" as const, mainFile: versions.last("disk-agent") },
          devices: { count, sizeBytes: DRIVE_BYTES },
        })),
      ],
    });
    return new UpgradedFleet(mesh, versions, random, report);
  }

  get done(): Omit<UpgradedFleetResult, "fleets"> {
    const disks = [...this.#ended, ...this.#disks.values()];
    const sum = (of: (disk: CheckedDisk) => number): number => disks.reduce((total, disk) => total + of(disk), 0);
    return {
      violations: [...this.#violations],
      kills: this.#kills,
      writes: sum(({ writes }) => writes),
      diskReads: sum(({ reads }) => reads),
      driveReads: this.#driveReads,
      longestPauseMs: Math.max(...disks.map((disk) => disk.longestPauseMs)),
    };
  }

  async run(): Promise<void> {
    await this.#fill();
    this.#killing = this.#kill();
    await this.#step("full of disks of the last release", async () => {});
    await this.#step("registry upgraded", () => this.#replace(REGISTRY));
    for (const hostId of AGENTS) await this.#step(`agent of ${hostId} upgraded`, () => this.#replace(hostId));
    await this.#step("a disk deleted, its drive labelled", () => this.#deleteOne());
    await this.#step("disks made on the labelled drive", () => this.#makeSmall());
    await this.#step("a disk of the last release grown", () => this.#growOne());
    await this.#step("a host removed", () => this.#removeHost());
    this.#isOver = true;
    await this.#killing;
    await this.#checkDrives();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await this.#killing?.catch(() => {});
    await Promise.all([...this.#disks.values()].map((disk) => disk.end()));
    await this.mesh[Symbol.asyncDispose]();
  }

  get #registry() {
    return this.mesh.clients.registry;
  }

  /** Acts, goes on for a while, and compares each disk with what was written. */
  async #step(name: string, act: () => Promise<void>): Promise<void> {
    if (this.#violations.size > 0) return;
    const [startedAtMs, kills] = [performance.now(), this.#kills];
    await act().catch((error: unknown) => {
      throw new Error(`${name}: ${messageOf(error)}`, { cause: error });
    });
    await new Promise((resolve) => setTimeout(resolve, BETWEEN_STEPS_MS));
    for (const disk of this.#disks.values()) await disk.check();
    const seconds = Math.round((performance.now() - startedAtMs) / 1_000);
    this.report(`${name}: ${this.#disks.size} disks compared, ${this.#kills - kills} kills in ${seconds} s`);
  }

  /** Runs one after another what ends and starts processes. */
  #alone<T>(act: () => Promise<T>): Promise<T> {
    const acted = this.#turn.catch(() => {}).then(act);
    this.#turn = acted;
    return acted;
  }

  /** Kills one process or two, again and again, until it is over. */
  async #kill(): Promise<void> {
    while (!this.#isOver) {
      await new Promise((resolve) => setTimeout(resolve, this.random.between(0, KILL_AFTER_MS)));
      const names = new Set([1, 2].map(() => this.random.pick([REGISTRY, ...AGENTS])));
      await this.#alone(() => Promise.all([...names].map((name) => this.#restart(name))));
    }
  }

  async #restart(name: string): Promise<void> {
    const process = this.mesh.process(name);
    await process.kill();
    this.#kills += 1;
    await process.start();
  }

  /** Has the process be of the present version from its next start on. It is stopped, or killed. */
  #replace(name: string): Promise<void> {
    const process = this.mesh.process(name);
    return this.#alone(async () => {
      if (this.random.chance(0.5)) await process.stop();
      else await process.kill();
      process.mainFile = this.versions.present(name === REGISTRY ? "disk-registry" : "disk-agent");
      await process.start();
    });
  }

  /** Fills all drives of the first two hosts with a disk each, and begins to use them. */
  async #fill(): Promise<void> {
    for (const hostId of [LEAVING, STAYING]) {
      await eventually(async () => {
        const { result } = await this.#registry.addHost({ hostId });
        if (!/S_(OK|ALREADY)$/.test(result?.code ?? "")) throw new Error(result?.message);
      }, PATIENCE);
      await devicesReady({ clients: this.mesh.clients, hostIds: [hostId] });
      // The last disk of each host is used on the other one.
      for (let number = 1; number <= DRIVES[hostId]; number++) {
        const other = hostId === LEAVING ? STAYING : LEAVING;
        await this.#create(`${hostId}-disk-${number}`, DRIVE_BYTES, hostId, number === DRIVES[hostId] ? other : hostId);
      }
    }
  }

  async #create(diskId: string, sizeBytes: number, hostId: string, holder: string): Promise<void> {
    await retrying("CreateDisk", () => this.#registry.createDisk({ diskId, sizeBytes, hostId }));
    this.#holders.set(diskId, holder);
    const publish = async (): Promise<string> => {
      const { disk } = await this.#registry.publishDisk({ diskId, hostId: this.#holders.get(diskId) ?? "" });
      return disk?.publication?.exportPath ?? "";
    };
    const violation = (text: string) => void this.#violations.add(text);
    this.#disks.set(diskId, new CheckedDisk({ diskId, random: this.random.fork(), publish, violation }));
  }

  async #deleteOne(): Promise<void> {
    const diskId = `${STAYING}-disk-1`;
    const disk = await this.#disk(diskId);
    const deviceId = disk.parts[0]?.copies[0]?.deviceId ?? "";
    await this.#stopUsing(diskId);
    await retrying("DeleteDisk", () => this.#registry.deleteDisk({ diskId }));
    await eventually(async () => {
      const device = (await this.#devices()).find((each) => each.deviceId === deviceId);
      const bytes = readFileSync(device?.path ?? "");
      if (!device?.sliceBytes || !bytes.toString("latin1", 0, 16).startsWith("diskmesh-label"))
        throw new Error(`device ${deviceId} has no label: ${JSON.stringify(device)}`);
    }, PATIENCE);
  }

  async #stopUsing(diskId: string): Promise<void> {
    const disk = this.#disks.get(diskId);
    await disk?.end();
    if (disk !== undefined) this.#ended.push(disk);
    this.#disks.delete(diskId);
    await retrying("UnpublishDisk", () => this.#registry.unpublishDisk({ diskId }));
  }

  async #makeSmall(): Promise<void> {
    for (const number of [1, 2])
      await this.#create(`small-${number}`, 1.5 * MIB_BYTES, STAYING, number === 1 ? STAYING : NEW);
  }

  async #growOne(): Promise<void> {
    for (const [diskId, bytes] of [
      [`${STAYING}-disk-2`, DRIVE_BYTES + MIB_BYTES],
      ["small-1", 2 * MIB_BYTES],
    ] as const) {
      await retrying("ResizeDisk", () => this.#registry.resizeDisk({ diskId, sizeBytes: bytes }));
      await eventually(async () => {
        const { sizeBytes, publication } = await this.#disk(diskId);
        if (sizeBytes < bytes || publication?.changePending) throw new Error(`disk ${diskId} has ${sizeBytes} bytes`);
      }, PATIENCE);
    }
  }

  /** Has all disks be used elsewhere, and removes the host, whose disks move away. */
  async #removeHost(): Promise<void> {
    await eventually(async () => {
      const { result } = await this.#registry.addHost({ hostId: NEW });
      if (!/S_(OK|ALREADY)$/.test(result?.code ?? "")) throw new Error(result?.message);
    }, PATIENCE);
    for (const [diskId, holder] of this.#holders) {
      const disk = this.#disks.get(diskId);
      if (holder !== LEAVING || disk === undefined) continue;
      await disk.rest();
      await retrying("UnpublishDisk", () => this.#registry.unpublishDisk({ diskId }));
      this.#holders.set(diskId, this.random.pick([STAYING, NEW]));
      disk.goOn();
    }
    await eventually(async () => {
      const { result } = await this.#registry.removeHost({ hostId: LEAVING });
      if (result?.code !== "ACTION_CODE_S_OK") throw new Error(result?.message);
    }, PATIENCE);
  }

  async #disk(diskId: string): Promise<Disk> {
    const { disk } = await retrying("GetDisk", () => this.#registry.getDisk({ diskId }));
    if (disk === undefined) throw new Error(`the answer has no disk ${diskId}`);
    return disk;
  }

  async #devices(): Promise<readonly Device[]> {
    return (await retrying("ListDevices", () => this.#registry.listDevices({ pageSize: 1_000 }))).devices;
  }

  /** Waits until nothing is to be erased, and requires that the drives have blocks of disks, each once, labels, tables and records, and nothing else. */
  async #checkDrives(): Promise<void> {
    for (const disk of this.#disks.values()) await disk.check();
    await eventually(async () => {
      const dirty = (await this.#devices()).filter((device) => device.dirty);
      if (dirty.length > 0) throw new Error(`${dirty.map(({ deviceId }) => deviceId).join(", ")} are not erased`);
    }, PATIENCE);
    await Promise.all([...this.#disks.values()].map((disk) => disk.rest()));
    const seen = new Set<string>();
    for (const [hostId, count] of Object.entries(DRIVES))
      for (let index = 0; index < count; index++) this.#checkDrive(hostId, this.mesh.deviceFile(hostId, index), seen);
    this.#driveReads += 1;
  }

  #checkDrive(hostId: string, path: string, seen: Set<string>): void {
    const bytes = readFileSync(path);
    const isMark = marksOn((offset, length) => bytes.subarray(offset, offset + length), this.#disks.keys());
    for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
      const block = bytes.subarray(at, at + BLOCK_BYTES);
      const line = block.toString("latin1", 0, 48);
      if (block.every((byte) => byte === 0) || (hostId !== LEAVING && isMark(at))) continue;
      const found = parseBlock(block);
      const name = `${found?.diskId} block ${found?.block}`;
      const isOwn = found !== undefined && this.#disks.get(found.diskId)?.isWritten(found) === true;
      if (!isOwn || hostId === LEAVING || seen.has(name))
        this.#violations.add(`${path} has ${JSON.stringify(line)} at byte ${at}`);
      seen.add(name);
    }
  }
}
