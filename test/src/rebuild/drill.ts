import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";

import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AttachState, type Disk } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter } from "../mesh/checked-writer.js";
import { HEAD_BYTES } from "../mesh/device-files.js";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts, devicesReady, retrying } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { ended } from "../mesh/typed-lines.js";
import { Random } from "../random.js";
import { repositoryFolder } from "../repository-folder.js";
import { typeBlock } from "./page.js";

const HOSTS = 5;
const DISKS = 50;
/** Disk that the director knows by this name. */
export const NAMED = "named";
const WRITERS = 10;
const DEVICES = 3;
const DEVICE_SLICES = 24;
/** A disk of one slice, beside the record of its run. */
const SMALL_BYTES = MIB_BYTES - HEAD_BYTES;
/** A disk that no device has room for, so that it has parts on several. */
const LARGE_BYTES = (DEVICE_SLICES + 2) * MIB_BYTES;
/** A disk that no host has room for, so that it has parts on several. */
export const WIDE = "disk-40";
const WIDE_BYTES = (DEVICES * DEVICE_SLICES + 8) * MIB_BYTES;
const REGISTRY = "disk-registry";

/** A mesh whose registry is lost and rebuilt while checked writers write to its disks. */
export class Drill implements AsyncDisposable {
  readonly writers: CheckedWriter[] = [];

  private constructor(
    readonly mesh: TestMesh,
    readonly random: Random,
  ) {}

  static async start(seed: number): Promise<Drill> {
    const overrides = {
      "disk-agent": { tuning: { registrySilenceMs: 1_000, registration: { minDelayMs: 50, maxDelayMs: 500 } } },
    };
    const deviceSizeBytes = DEVICE_SLICES * MIB_BYTES + HEAD_BYTES;
    const plan = wholeFleet({ hosts: HOSTS, devicesPerHost: DEVICES, deviceSizeBytes, overrides });
    const drill = new Drill(await TestMesh.start(plan), new Random(seed));
    await addHosts(drill.mesh);
    await devicesReady(drill.mesh);
    return drill;
  }

  get registry() {
    return this.mesh.clients.registry;
  }

  /** Makes the disks, writes to each, and goes on to write to some, most of them on other hosts than their devices. */
  async begin(): Promise<void> {
    const { hostIds } = this.mesh;
    const diskIds = Array.from({ length: DISKS }, (_, index) => `disk-${index}`);
    for (const [index, diskId] of diskIds.entries()) {
      const sizeBytes = index % 10 === 0 ? LARGE_BYTES : SMALL_BYTES;
      await this.create(diskId, diskId === WIDE ? WIDE_BYTES : sizeBytes);
      await this.write(diskId, hostIds[index % HOSTS] ?? "");
    }
    // They grow while they are served: by another part in a session of its own, and within their run.
    await this.resize("disk-0", LARGE_BYTES + 4 * MIB_BYTES);
    await this.resize("disk-1", 2 * MIB_BYTES);
    await ended(this.mesh, `provide ${NAMED} --host host-3 --size 1MiB`, 0);
    await this.anotherRound();
    await Promise.all(diskIds.slice(WRITERS).map((diskId) => this.release(diskId)));
  }

  async resize(diskId: string, sizeBytes: number): Promise<void> {
    await retrying(`ResizeDisk ${diskId}`, () => this.registry.resizeDisk({ diskId, sizeBytes }));
  }

  async create(diskId: string, sizeBytes: number): Promise<void> {
    const request = { diskId, sizeBytes, az: "z1", hostId: "", pool: "", spreadRacks: false, labels: [] };
    await retrying(`CreateDisk ${diskId}`, () => this.registry.createDisk(request));
  }

  async publish(diskId: string, hostId: string): Promise<string> {
    const { disk } = await retrying(`PublishDisk ${diskId}`, () => this.registry.publishDisk({ diskId, hostId }));
    return disk?.publication?.exportPath ?? "";
  }

  async write(diskId: string, hostId: string): Promise<void> {
    this.writers.push(new CheckedWriter(diskId, await this.publish(diskId, hostId)));
  }

  writerOf(diskId: string): CheckedWriter {
    const writer = this.writers.find((each) => each.diskId === diskId);
    if (writer === undefined) throw new Error(`nobody writes to ${diskId}`);
    return writer;
  }

  /** Returns whether the disk's writer was stopped, so that only a test publishes it. */
  isWrittenAndDetached(diskId: string): boolean {
    return this.writers.some((writer) => writer.diskId === diskId && writer.isStopped);
  }

  /** Stops the writer of a disk, and unpublishes the disk. */
  async release(diskId: string): Promise<void> {
    await this.writerOf(diskId).stop();
    const hostId = (await this.disk(diskId)).publication?.hostId ?? "";
    await this.unpublish(diskId, hostId);
  }

  async unpublish(diskId: string, hostId: string): Promise<void> {
    await retrying(`UnpublishDisk ${diskId}`, () => this.registry.unpublishDisk({ diskId, hostId }));
  }

  async disk(diskId: string): Promise<Disk> {
    const { disk } = await retrying("GetDisk", () => this.registry.getDisk({ diskId }));
    if (disk === undefined) throw new Error(`there is no disk ${diskId}`);
    return disk;
  }

  async disks(): Promise<readonly Disk[]> {
    return (await retrying("ListDisks", () => this.registry.listDisks({ pageSize: 1_000 }))).disks;
  }

  /** Writers that were not stopped. */
  get writing(): readonly CheckedWriter[] {
    return this.writers.filter((writer) => !writer.isStopped);
  }

  async anotherRound(): Promise<void> {
    await Promise.all(this.writing.map((writer) => writer.load.anotherRound()));
  }

  /** Failed reads and writes, and bytes that differ. */
  get faults(): readonly string[] {
    return this.writers.flatMap(({ faults }) => faults);
  }

  async fleetId(): Promise<string> {
    return (await this.mesh.clients.fleet.getFleet({})).tabletId;
  }

  /** Publishes the disks whose writers have stopped, and compares their bytes with what was acknowledged. */
  async compareDetached(): Promise<void> {
    const { hostIds } = this.mesh;
    for (const [index, writer] of this.writers.entries()) {
      if (!writer.isStopped) continue;
      const hostId = hostIds[index % HOSTS] ?? "";
      await writer.check(await this.publish(writer.diskId, hostId));
      await this.unpublish(writer.diskId, hostId);
    }
  }

  /** Kills the registry and deletes its store. */
  async loseRegistry(): Promise<void> {
    await this.mesh.process(REGISTRY).kill();
    this.deleteStore();
  }

  deleteStore(): void {
    rmSync(this.mesh.dataFolder(REGISTRY), { recursive: true });
  }

  /** Writes the registry's config, and has the page list the agents. */
  async files(): Promise<void> {
    const plan = this.mesh.plan.processes.find(({ service }) => service === REGISTRY);
    if (plan === undefined) throw new Error("the mesh has no registry");
    writeFileSync(join(this.mesh.folder, "disk-registry.json"), JSON.stringify(this.mesh.configOf(plan)));
    await this.type("Before it happens", 0);
  }

  /** Types a block of the page. */
  type(section: string, index: number, more: Readonly<Record<string, string>> = {}): Promise<string> {
    const variables = { REGISTRY_CONFIG: "disk-registry.json", REGISTRY: this.mesh.address(REGISTRY) };
    return typeBlock(this.mesh, [section, index], { ...variables, ...more });
  }

  /** Types `diskmesh rebuild` with these further words. */
  async rebuild(...more: readonly string[]) {
    const { folder } = this.mesh;
    const files = ["--from-agents", join(folder, "agents.txt"), "--config", join(folder, "disk-registry.json")];
    const { code, out, err } = await this.mesh.typed("rebuild", ...files, ...more);
    return { code, text: `${out}${err}` };
  }

  /** Starts a rebuild as a process, and kills it after that time. */
  async rebuildKilled(afterMs: number, ...more: readonly string[]): Promise<void> {
    const { folder } = this.mesh;
    const program = join(repositoryFolder, "services/disk-registry/dist/rebuild.js");
    const args = ["--from-agents", join(folder, "agents.txt"), "--config", join(folder, "disk-registry.json"), ...more];
    const child: ChildProcess = spawn(process.execPath, [program, ...args], { stdio: "ignore" });
    const ended = once(child, "close");
    const timer = setTimeout(() => child.kill("SIGKILL"), afterMs);
    await ended;
    clearTimeout(timer);
  }

  /** Starts the rebuilt registry, and waits until so many hosts have registered. */
  async startRegistry(hosts = HOSTS): Promise<void> {
    await this.mesh.process(REGISTRY).start();
    await this.whenRegistered(hosts);
  }

  async whenRegistered(hosts = HOSTS): Promise<void> {
    await eventually(async () => {
      const listed = (await this.registry.listHosts({ pageSize: 100 })).hosts;
      expect(listed.filter(({ lastHeartbeatTime }) => lastHeartbeatTime !== undefined)).to.have.length(hosts);
    });
  }

  async stopWriters(diskIds: readonly string[]): Promise<void> {
    await Promise.all(this.writing.filter(({ diskId }) => diskIds.includes(diskId)).map((writer) => writer.stop()));
  }

  /** Runs an action while the list of agents lacks one. */
  async withoutAgent(hostId: string, action: () => Promise<void>): Promise<void> {
    const file = join(this.mesh.folder, "agents.txt");
    const all = readFileSync(file, "utf8");
    writeFileSync(file, all.replace(new RegExp(`^${hostId} .*$`, "m"), `# ${hostId} is away`));
    await action();
    writeFileSync(file, all);
  }

  /** Returns the sums of a host's device files. */
  deviceBytes(hostId: string): string {
    const sums = Array.from({ length: DEVICES }, (_, index) =>
      createHash("sha256")
        .update(readFileSync(this.mesh.deviceFile(hostId, index)))
        .digest("hex"),
    );
    return sums.join(" ");
  }

  async whenErased(): Promise<void> {
    await eventually(async () => {
      const { devices } = await this.registry.listDevices({ pageSize: 1_000 });
      const waiting = devices.filter(({ attachState, dirty }) => attachState !== AttachState.ATTACHED || dirty);
      expect(waiting.map(({ deviceId, lastError }) => `${deviceId} ${lastError}`)).to.deep.equal([]);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.writers.map((writer) => writer.stop()));
    await this.mesh[Symbol.asyncDispose]();
  }
}
