import { type CopiedDisk, devicesIn } from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import type { Timeline } from "../seed/timeline.js";
import { Cuts } from "./cuts.js";
import type { Drive } from "./drive.js";
import type { CopyFaults } from "./faults.js";
import type { HolderRun } from "./holder-run.js";
import type { Machine } from "./machine.js";
import type { Operator } from "./operator.js";
import { BLOCKS, REGISTRY } from "./parts.js";
import type { Registry } from "./registry.js";
import { type CopyScenario, MOST_DEATHS, MOST_SNAPSHOTS } from "./scenarios.js";
import { CopyStore } from "./store.js";
import type { Users } from "./users.js";
import type { Watch } from "./watch.js";
import type { Wishes } from "./wishes.js";

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
  readonly wishes: Wishes;
  readonly operator: Operator;
  readonly timeline: Timeline;
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
  #deaths = 0;
  #changesSeen = 0;
  #isOver = false;
  #hasStopped = false;

  readonly #cuts: Cuts;

  constructor(private readonly world: ChaosWorld) {
    this.#cuts = new Cuts(world);
  }

  begin(): void {
    this.world.operator.begin();
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
    if (random.chance(faults.ailing)) this.#ail(this.#usedDrive());
    if (random.chance(faults.death)) this.#die();
    if (random.chance(faults.powerLoss)) this.#losePower(random.pick(world.hostIds));
    if (random.chance(faults.agentCrash)) this.#crashAgent(random.pick(world.hostIds));
    if (random.chance(faults.pairCut)) this.#cuts.between(random.pick(world.hostIds), random.pick(world.hostIds));
    if (random.chance(faults.registryCut)) this.#cuts.between(random.pick(world.hostIds), REGISTRY);
    if (random.chance(faults.othersCut)) this.#cuts.fromOthers(random.pick(world.hostIds));
    if (random.chance(faults.hostCut)) this.#cuts.isolate(random.pick(world.hostIds));
    if (random.chance(faults.flap)) this.#cuts.flap(random.pick(world.hostIds));
    if (random.chance(faults.takeover)) this.#takeOver();
    if (random.chance(faults.backup)) this.#backups.push(new CopyStore(world.registry.store));
    if (random.chance(faults.rewind)) this.#goBack();
    const changes = world.watch.changes;
    if (changes > this.#changesSeen && random.chance(faults.rewindAfterChange)) {
      this.#cuts.isolate(random.pick(world.hostIds));
      this.#goBack();
    }
    this.#changesSeen = world.watch.changes;
    this.#wish();
  }

  #wish(): void {
    const { world } = this;
    const { random, registry, operator } = world;
    const { wishes } = world;
    const chances = world.scenario.wishes;
    const disks = [...registry.store.disks.values()];
    if (disks.length === 0) return;
    const { diskId, parts } = random.pick(disks);
    if (random.chance(chances.publish)) {
      if (random.chance(0.25)) world.wants.delete(diskId);
      else world.wants.set(diskId, random.pick(world.hostIds));
    }
    if (random.chance(chances.delete)) operator.delete(diskId);
    if (random.chance(chances.move)) this.#move(diskId, random.below(parts.length));
    if (random.chance(chances.snapshot) && this.#snapshots < MOST_SNAPSHOTS) {
      this.#snapshots += 1;
      wishes.snapshot(diskId, `job-${this.#snapshots}`);
    }
  }

  /** Moves a copy, in some scenarios away from the host that the disk is used on. */
  #move(diskId: DiskId, part: number): void {
    const { random, wishes, scenario, wants } = this.world;
    const deviceId = wishes.move(diskId, part);
    if (deviceId !== undefined && random.chance(scenario.wishes.moveOwn))
      wants.set(diskId, this.world.driveOf(deviceId).hostId);
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

  #fail(drive = this.world.driveOf(this.world.random.pick(this.world.deviceIds))): void {
    this.#trace(`${drive.deviceId} fails`);
    drive.isFailing = true;
    this.world.after(this.world.random.delayMs(600, 10_000, 0.5), () => {
      drive.isFailing = false;
    });
  }

  /** A drive fails for short times, between which it can be filled again. */
  #ail(drive: Drive, times = 5): void {
    const { random } = this.world;
    if (times < 1 || this.#hasStopped) return;
    this.#trace(`${drive.deviceId} fails`);
    drive.isFailing = true;
    this.world.after(random.between(500, 1_500), () => {
      drive.isFailing = false;
      this.world.after(random.between(1_000, 4_000), () => this.#ail(drive, times - 1));
    });
  }

  #usedDrive(): Drive {
    const { random, registry, deviceIds } = this.world;
    const used = [...registry.store.used()];
    return this.world.driveOf(random.pick(used.length > 0 ? used : deviceIds));
  }

  #die(drive = this.#usedDrive()): void {
    // A host with two fewer drives may have no room for a copy that moves.
    const isHit = this.world.machineOf(drive.hostId).drives.some(({ diedAtMs }) => diedAtMs !== undefined);
    if (this.#deaths >= MOST_DEATHS || isHit) return;
    this.#deaths += 1;
    this.#trace(`${drive.deviceId} fails for good`);
    drive.die();
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

  /** A commit of the registry: the holder's agent, the network or the store fail just then. */
  changed(before: CopiedDisk, after: CopiedDisk): void {
    const { random, faults } = this.world;
    const hostId = after.publication?.hostId;
    if (hostId === undefined || after.publication?.isRepair || this.#hasStopped) return;
    if (random.chance(faults.agentCrashAfterChange))
      this.world.after(random.between(0, 8), () => this.#crashAgent(hostId));
    const filled = filledCopies(before, after);
    if (filled.length > 0 && random.chance(faults.rewindAfterFill)) this.#goBackAfterFill(after, filled);
    if (changedCopies(before, after, "DROPPED").length > 0 && random.chance(faults.rewindAfterDrop))
      this.#goBackAfterDrop(hostId);
    const forgetting = after.parts.filter((part) => isToForget(part, after));
    if (forgetting.length > 0 && random.chance(faults.rewindAfterForget)) this.#goBackAfterForget(forgetting);
    const left = this.#hostsOf(changedCopies(before, after, "LEAVING"));
    const staying = this.#hostsOf(after.parts.flatMap((part) => devicesIn(part, "COUNTS")));
    if (left.length === 0) return;
    const isOwn = left.includes(hostId) && !staying.includes(hostId);
    if (isOwn && random.chance(faults.fenceAfterLeave)) this.#fenceUnheard(after.diskId, hostId);
    else if (random.chance(faults.rewindAfterLeave)) this.#goBackWithout(random.pick(staying));
  }

  #hostsOf(devices: readonly DeviceId[]): readonly HostId[] {
    return devices.map((deviceId) => this.world.driveOf(deviceId).hostId);
  }

  /** Those fail that a copy was filled from, and users go on with it. The store goes back, and that copy is not heard. */
  #goBackAfterFill({ parts }: CopiedDisk, filled: readonly DeviceId[]): void {
    for (const deviceId of parts.flatMap((part) => devicesIn(part, "COUNTS")))
      if (!filled.includes(deviceId)) this.#fail(this.world.driveOf(deviceId));
    this.world.after(this.world.random.between(500, 3_000), () =>
      this.#goBackWithout(this.world.random.pick(this.#hostsOf(filled))),
    );
  }

  /** A remembered copy is erased, then the store goes back to where it was not, and the drives that count fail for good. */
  #goBackAfterForget(parts: CopiedDisk["parts"]): void {
    const { registry, random } = this.world;
    const backup = new CopyStore(registry.store);
    this.#backups.push(backup);
    this.world.after(random.between(4_000, 12_000), () => {
      if (this.#hasStopped || !this.#backups.includes(backup)) return;
      this.#goBack(backup);
      for (const deviceId of parts.flatMap((part) => devicesIn(part, "COUNTS")))
        this.#die(this.world.driveOf(deviceId));
    });
  }

  /** Nobody but the holder is heard, so that a dropped copy is not filled, and then the store goes back. */
  #goBackAfterDrop(holder: HostId): void {
    const { random, hostIds } = this.world;
    const awayMs = random.between(4_000, 10_000);
    for (const hostId of hostIds) if (hostId !== holder) this.#cuts.between(hostId, REGISTRY, awayMs);
    this.world.after(awayMs + random.between(0, 300), () => this.#hasStopped || this.#goBack());
  }

  /** The store goes back to a time before a copy left, and a copy that stays is not heard. */
  #goBackWithout(hostId: HostId): void {
    this.world.after(this.world.random.between(0, 1_500), () => {
      if (this.#hasStopped) return;
      this.#cuts.isolate(hostId);
      this.#goBack();
    });
  }

  /**
   * The holder does not hear that its own copy leaves. Another leader, which has not heard the holder's host, has the disk
   * go elsewhere at once, and the holder is cut off at about the time of the fence.
   */
  #fenceUnheard(diskId: DiskId, hostId: HostId): void {
    const { random, wants, hostIds } = this.world;
    this.#cuts.between(hostId, REGISTRY, random.between(10_000, 20_000));
    wants.set(diskId, random.pick(hostIds.filter((each) => each !== hostId)));
    this.#takeOver(random.between(100, 500));
    this.world.after(random.between(0, 1_500), () => this.#cuts.fromOthers(hostId));
  }

  #takeOver(afterMs = this.world.random.between(100, 4_000)): void {
    const { registry } = this.world;
    if (registry.leader === undefined) return;
    this.#trace("the registry's leader ends");
    registry.end();
    this.world.after(afterMs, () => registry.leader ?? registry.lead());
  }

  #goBack(to?: CopyStore): void {
    const { registry, random, faults, watch } = this.world;
    if (this.#backups.length === 0) return;
    // Backups of the history that is given up are of no use.
    const last = to === undefined ? random.below(this.#backups.length) : this.#backups.indexOf(to);
    this.#backups = this.#backups.slice(0, 1 + last);
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
    this.#cuts.stop();
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
      if (world.operator.isDeleted(disk.diskId)) return `${disk.diskId} is not deleted`;
      if (!world.wants.has(disk.diskId)) world.wants.set(disk.diskId, world.random.pick(world.hostIds));
      const why = whyNotWhole(disk) ?? whyTogether(disk, (deviceId) => world.driveOf(deviceId).hostId);
      if (why !== undefined) return `${disk.diskId} ${why}`;
      const hostId = world.wants.get(disk.diskId) as HostId;
      const run = world.machineOf(hostId).holders.get(disk.diskId);
      if (run === undefined || !run.isOpen) return `${disk.diskId} is not served on ${hostId}`;
      if (!this.#isOver) continue;
      if (world.users.isBusy(run)) return `a user of ${disk.diskId} waits`;
    }
    if (world.registry.store.disks.size === 0) return "there is no disk";
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

/** Returns whether the part remembers a copy that it needs no more: as many count as are to. */
function isToForget(part: CopiedDisk["parts"][number], { copiesWished }: CopiedDisk): boolean {
  const isRemembered = devicesIn(part, "RESYNC").length + devicesIn(part, "DROPPED").length > 0;
  return isRemembered && devicesIn(part, "COUNTS").length >= copiesWished;
}

/** Returns the copies that count since a commit. */
function filledCopies(before: CopiedDisk, after: CopiedDisk): readonly DeviceId[] {
  return after.parts.flatMap((part, index) => {
    const counted = devicesIn(before.parts[index] ?? part, "COUNTS");
    return devicesIn(part, "COUNTS").filter((deviceId) => !counted.includes(deviceId));
  });
}

/** Returns the copies that counted before a commit, and have the other state since. */
function changedCopies(before: CopiedDisk, after: CopiedDisk, state: "LEAVING" | "DROPPED"): readonly DeviceId[] {
  return after.parts.flatMap((part, index) => {
    const counted = devicesIn(before.parts[index] ?? part, "COUNTS");
    return devicesIn(part, state).filter((deviceId) => counted.includes(deviceId));
  });
}
