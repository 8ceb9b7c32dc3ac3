import { type CopiedDisk, devicesIn } from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import type { Drive } from "./drive.js";
import type { CopyFaults } from "./faults.js";
import type { HolderRun } from "./holder-run.js";
import type { Machine } from "./machine.js";
import { BLOCKS, REGISTRY } from "./parts.js";
import type { Registry } from "./registry.js";
import { type CopyScenario, MOST_SNAPSHOTS } from "./scenarios.js";
import { CopyStore } from "./store.js";
import type { Users } from "./users.js";
import type { Watch } from "./watch.js";

/** The world, as faults and operators see it. */
interface ChaosWorld {
  readonly random: Random;
  readonly faults: CopyFaults;
  readonly scenario: CopyScenario;
  readonly hostIds: readonly HostId[];
  readonly deviceIds: readonly DeviceId[];
  readonly wants: Map<DiskId, HostId>;
  readonly machines: ReadonlyMap<HostId, Machine>;
  readonly cuts: Set<string>;
  readonly registry: Registry;
  readonly watch: Watch;
  readonly users: Users;
  readonly isTraced: boolean;
  driveOf(deviceId: DeviceId): Drive;
  machineOf(hostId: HostId): Machine;
  after(delayMs: number, run: () => void): void;
  trace(line: string): void;
}

/** Events of the fleet: faults, wishes of operators, and requests of users. */
export class Chaos {
  #backups: CopyStore[] = [];
  #snapshots = 0;
  #changesSeen = 0;
  #isOver = false;
  #hasStopped = false;

  constructor(private readonly world: ChaosWorld) {}

  /** Makes the disk. */
  begin(): void {
    const { world } = this;
    const { scenario, random, hostIds } = world;
    const parts = Array.from({ length: scenario.partCount }, (_, part) =>
      shuffled(random, hostIds)
        .slice(0, scenario.copies)
        .map((hostId) => (world.machineOf(hostId).drives[part] as Drive).deviceId),
    );
    const diskId = "disk-1" as DiskId;
    world.registry.create(diskId, scenario.copies, parts);
    world.wants.set(diskId, random.pick(hostIds));
    this.#use();
  }

  /** Users act wherever a disk is served. */
  #use(): void {
    const { random, users } = this.world;
    for (const run of this.#served()) if (random.chance(0.5)) users.act(run.diskId, run);
    this.world.after(random.between(20, 250), () => {
      if (!this.#isOver) this.#use();
    });
  }

  #served(): readonly HolderRun[] {
    return [...this.world.machines.values()].flatMap(({ holders }) =>
      [...holders.values()].filter((run) => run.isOpen && !run.holder.isRepair),
    );
  }

  turn(): void {
    const { world } = this;
    const { random, faults } = world;
    if (random.chance(faults.hang)) this.#hang();
    if (random.chance(faults.failure)) this.#fail();
    if (random.chance(faults.powerLoss)) this.#losePower(random.pick(world.hostIds));
    if (random.chance(faults.agentCrash)) this.#crashAgent(random.pick(world.hostIds));
    if (random.chance(faults.pairCut)) this.#cut(random.pick(world.hostIds), random.pick(world.hostIds));
    if (random.chance(faults.registryCut)) this.#cut(random.pick(world.hostIds), REGISTRY);
    if (random.chance(faults.othersCut)) this.#cutFromOthers(random.pick(world.hostIds));
    if (random.chance(faults.hostCut)) this.#isolate(random.pick(world.hostIds));
    if (random.chance(faults.takeover)) this.#takeOver();
    if (random.chance(faults.backup)) this.#backups.push(new CopyStore(world.registry.store));
    if (random.chance(faults.rewind)) this.#goBack();
    const changes = world.watch.changes;
    if (changes > this.#changesSeen && random.chance(faults.rewindAfterChange)) {
      this.#isolate(random.pick(world.hostIds));
      this.#goBack();
    }
    this.#changesSeen = world.watch.changes;
    this.#wish();
  }

  #wish(): void {
    const { world } = this;
    const { random, registry } = world;
    const { wishes } = world.scenario;
    const disks = [...registry.store.disks.values()];
    if (disks.length === 0) return;
    const { diskId, parts } = random.pick(disks);
    if (random.chance(wishes.publish)) {
      if (random.chance(0.25)) world.wants.delete(diskId);
      else world.wants.set(diskId, random.pick(world.hostIds));
    }
    if (random.chance(wishes.move)) registry.move(diskId, random.below(parts.length));
    if (random.chance(wishes.snapshot) && this.#snapshots < MOST_SNAPSHOTS) {
      this.#snapshots += 1;
      registry.snapshot(diskId, `job-${this.#snapshots}`);
    }
  }

  #trace(line: string): void {
    if (this.world.isTraced) this.world.trace(`fault: ${line}`);
  }

  #hang(): void {
    const drive = this.world.driveOf(this.world.random.pick(this.world.deviceIds));
    this.#trace(`${drive.deviceId} hangs`);
    drive.hang();
    this.world.after(this.world.random.between(500, 15_000), () => drive.goOn());
  }

  #fail(): void {
    const drive = this.world.driveOf(this.world.random.pick(this.world.deviceIds));
    this.#trace(`${drive.deviceId} fails`);
    drive.isFailing = true;
    this.world.after(this.world.random.delayMs(600, 10_000, 0.5), () => {
      drive.isFailing = false;
    });
  }

  #losePower(hostId: HostId): void {
    const machine = this.world.machineOf(hostId);
    if (!machine.isUp) return;
    this.#trace(`${hostId} loses power`);
    machine.losePower();
    this.world.after(this.world.random.between(300, 20_000), () => {
      if (machine.isUp) return;
      this.#trace(`${hostId} boots`);
      machine.boot();
    });
  }

  #crashAgent(hostId: HostId): void {
    const { random, faults } = this.world;
    const machine = this.world.machineOf(hostId);
    if (!machine.hasAgent || this.#hasStopped) return;
    const losesCache = random.chance(faults.lostCache);
    this.#trace(`agent ${hostId} ends${losesCache ? " and loses its cache" : ""}`);
    machine.crashAgent(losesCache);
    this.world.after(random.between(100, 8_000), () => machine.startAgent());
  }

  #cut(from: string, to: string): void {
    const key = `${from} ${to}`;
    if (from === to || this.world.cuts.has(key)) return;
    this.#trace(`${from} and ${to} are cut from each other`);
    this.world.cuts.add(key);
    this.world.after(this.world.random.between(500, 30_000), () => this.world.cuts.delete(key));
  }

  /** Cuts a host from the registry and, at once or later, from all other hosts. */
  #isolate(hostId: HostId): void {
    const { random } = this.world;
    this.#cut(hostId, REGISTRY);
    if (random.chance(0.5)) this.#cutFromOthers(hostId);
    else this.world.after(random.between(0, 10_000), () => this.#hasStopped || this.#cutFromOthers(hostId));
    // Users who run something on the host want it elsewhere.
    for (const [diskId, wanted] of this.world.wants)
      if (wanted === hostId && random.chance(0.7)) this.world.wants.set(diskId, random.pick(this.world.hostIds));
  }

  #cutFromOthers(hostId: HostId): void {
    for (const other of this.world.hostIds) this.#cut(hostId, other);
  }

  /** A set of copies has changed: the holder's agent may end before it follows. */
  changed(holder: HostId): void {
    const { random, faults } = this.world;
    if (random.chance(faults.agentCrashAfterChange))
      this.world.after(random.between(0, 12), () => this.#crashAgent(holder));
  }

  #takeOver(): void {
    const { registry, random } = this.world;
    if (registry.leader === undefined) return;
    this.#trace("the registry's leader ends");
    registry.end();
    this.world.after(random.between(100, 4_000), () => registry.leader ?? registry.lead());
  }

  #goBack(): void {
    const { registry, random, faults, watch } = this.world;
    if (this.#backups.length === 0) return;
    // Backups of the history that is given up are of no use.
    this.#backups = this.#backups.slice(0, 1 + random.below(this.#backups.length));
    const backup = this.#backups.at(-1) as CopyStore;
    const isRestored = !random.chance(faults.copiedBack);
    this.#trace(isRestored ? "the registry is restored" : "the registry's folder is copied back");
    registry.goBack(backup, isRestored);
    watch.forgetOthers();
    this.world.after(random.between(500, 5_000), () => registry.leader ?? registry.lead());
  }

  /** Ends all faults. */
  stop(): void {
    const { world } = this;
    this.#hasStopped = true;
    Object.assign(world.faults, Object.fromEntries(Object.keys(world.faults).map((fault) => [fault, 0])));
    world.cuts.clear();
    for (const deviceId of world.deviceIds) {
      const drive = world.driveOf(deviceId);
      drive.isFailing = false;
      drive.goOn();
    }
    for (const machine of world.machines.values())
      if (machine.isUp) machine.startAgent();
      else machine.boot();
    if (world.registry.leader === undefined) world.registry.lead();
  }

  /** Returns what is not as it should be; undefined once all is, and every block was read once more. */
  whyNotConverged(): string | undefined {
    const { world } = this;
    for (const disk of world.registry.store.disks.values()) {
      if (!world.wants.has(disk.diskId)) world.wants.set(disk.diskId, world.random.pick(world.hostIds));
      const why = whyNotWhole(disk) ?? whyTogether(disk, (deviceId) => world.driveOf(deviceId).hostId);
      if (why !== undefined) return `${disk.diskId} ${why}`;
      const hostId = world.wants.get(disk.diskId) as HostId;
      const run = world.machineOf(hostId).holders.get(disk.diskId);
      if (run === undefined || !run.isOpen) return `${disk.diskId} is not served on ${hostId}`;
      if (!this.#isOver) continue;
      if (world.users.isBusy(run)) return `a user of ${disk.diskId} waits`;
    }
    if (world.registry.store.dirty.size > 0) return `${[...world.registry.store.dirty]} are not erased`;
    if (this.#isOver) return undefined;
    this.#isOver = true;
    for (const run of this.#served()) this.#readAll(run);
    return "users read once more";
  }

  #readAll(run: HolderRun): void {
    for (const part of run.holder.parts.keys())
      for (let block = 0; block < BLOCKS; block++) this.world.users.readLast(run, { diskId: run.diskId, part, block });
  }
}

function whyNotWhole({ publication, parts, copiesWished, isUnproven }: CopiedDisk): string | undefined {
  if (isUnproven) return "is unproven";
  if (publication?.state !== "PUBLISHED") return `is ${publication?.state ?? "unpublished"}`;
  if (publication.isRepair) return "is only repaired";
  if (publication.confirmedRevision !== publication.revision) return "has a revision that its holder does not follow";
  for (const [index, part] of parts.entries()) {
    const counting = devicesIn(part, "COUNTS").length;
    if (counting !== copiesWished) return `part ${index} has ${counting} copies that count, of ${copiesWished}`;
    if (part.copies.length !== counting) return `part ${index} has copies that it does not need`;
    if (part.moveFrom !== undefined) return `part ${index} has not moved`;
  }
  return undefined;
}

/** Returns which copies of a part one host would lose together. */
function whyTogether({ parts }: CopiedDisk, hostOf: (deviceId: DeviceId) => HostId): string | undefined {
  for (const [index, { copies }] of parts.entries()) {
    const hosts = copies.map(({ deviceId }) => hostOf(deviceId));
    if (new Set(hosts).size < hosts.length) return `part ${index} has two copies on one host of ${hosts}`;
  }
  return undefined;
}

function shuffled<T>(random: Random, items: readonly T[]): readonly T[] {
  const left = [...items];
  return items.map(() => left.splice(random.below(left.length), 1)[0] as T);
}
