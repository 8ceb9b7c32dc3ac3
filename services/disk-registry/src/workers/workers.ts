import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { messageOf } from "@diskmesh/domain";
import { WorkQueue, type WorkResult } from "@diskmesh/service";
import type { StoredChange } from "@diskmesh/tablet";
import type { EraseState } from "../model/devices/removal-erase.js";
import { deletedDisks, isDeleted } from "../model/disks/deleted-disks.js";
import type { MoveProgress } from "../model/disks/move-progress.js";
import type { Needed } from "../model/disks/pressure.js";
import { requireRegistration } from "../model/disks/remembered.js";
import { leaveFailing } from "../model/disks/removal-moves.js";
import { moveStateOf } from "../model/store/disk-parts.js";
import { labelDue } from "../model/store/label-due.js";
import { disksOn, isDirty } from "../model/store/runs.js";
import {
  awaitsOrder,
  type Device,
  type Disk,
  isChangePending,
  isErasable,
  isFailing,
  isHeld,
  type RegistryTables,
} from "../model/store/schema.js";
import type { DeviceProgress } from "../requests/wire.js";
import { EraseWorker } from "./erase-worker.js";
import { GraceWorker } from "./grace-worker.js";
import { type HostEvents, HostMonitor } from "./host-monitor.js";
import { LabelWorker } from "./label-worker.js";
import { MoveWorker } from "./move-worker.js";
import { OrderWorker } from "./order-worker.js";
import { PublicationWorker } from "./publication-worker.js";
import { hostsThatMayLeave, RemovalWorker } from "./removal-worker.js";
import { type Unexport, UnexportWorker, unexportKey } from "./unexport-worker.js";
import { WaitingMoves } from "./waiting-moves.js";
import { type WorkContext, workOf } from "./work-context.js";

/** Returns whether the disk's host has a change to take up that it had not before. */
function isNewChange({ publication }: Disk, before: Disk | undefined): boolean {
  return isChangePending(publication) && publication?.revision !== before?.publication?.revision;
}

/** Returns whether the device awaits an order to be closed that it had not before. */
function isToClose(device: Device, before: Device | undefined): boolean {
  return awaitsOrder(device) && !isHeld(device) && before !== undefined && device.generation !== before.generation;
}

/** Returns whether bytes of the device are to be erased, or its label is to be written or removed. */
function isToOverwrite(device: Device): boolean {
  return isErasable(device) || labelDue(device) !== undefined;
}

/** Returns whether a change of the disk lets its moves go on. */
function isMoveDue(disk: Disk, before: Disk | undefined): boolean {
  if (moveStateOf(disk.parts) === undefined) return false;
  const [now, was] = [disk.publication, before?.publication];
  if (now?.state !== was?.state || now?.confirmedRevision !== was?.confirmedRevision) return true;
  const movesOf = ({ parts }: Disk): number => parts.filter(({ move }) => move !== undefined).length;
  return before === undefined || movesOf(disk) > movesOf(before);
}

/**
 * All background work of a registry. A wake-up names only the thing to check; the worker reads the tables to decide.
 */
export class Workers {
  readonly #context: WorkContext;
  readonly #orderWorker: OrderWorker;
  readonly #eraseWorker: EraseWorker;
  readonly #publicationWorker: PublicationWorker;
  readonly #orders: WorkQueue;
  readonly #publications: WorkQueue;
  readonly #erases: WorkQueue;
  readonly #unexports: WorkQueue;
  readonly #moveWorker: MoveWorker;
  readonly #waitingMoves: WaitingMoves;
  readonly #moves: WorkQueue;
  readonly #removals: WorkQueue;
  readonly #graceWorker: GraceWorker;
  readonly #graces: WorkQueue;
  readonly #unwatch: () => void;
  readonly #monitor: HostMonitor;

  constructor(
    context: WorkContext,
    { seenOtherwise, moved }: Pick<HostEvents, "seenOtherwise"> & { readonly moved: (diskId: DiskId) => void },
  ) {
    const { maxOrderedHosts, maxPublications, maxErasingAgents, maxMoves } = context.limits;
    this.#context = context;
    this.#orderWorker = new OrderWorker(workOf("attach and detach orders", context), (devices) => {
      for (const device of devices) {
        for (const diskId of disksOn([device])) this.wakeDisk(diskId);
        if (isDirty(device)) this.wakeErase([device.deviceId]);
      }
    });
    this.#publicationWorker = new PublicationWorker(workOf("publications", context));
    this.#eraseWorker = new EraseWorker(workOf("erases", context));
    const unexportWorker = new UnexportWorker(workOf("ends of exports", context));
    this.#orders = this.#queue("orders", maxOrderedHosts, (hostId, signal) =>
      this.#orderWorker.process(hostId as HostId, signal),
    );
    this.#publications = this.#queue("publications", maxPublications, (diskId, signal) =>
      this.#publicationWorker.process(diskId as DiskId, signal),
    );
    const labelWorker = new LabelWorker(workOf("labels", context));
    // Labels follow erases, which would overwrite them.
    this.#erases = this.#queue("erases", maxErasingAgents, async (deviceId, signal) => {
      const erased = await this.#eraseWorker.process(deviceId as DeviceId, signal);
      return erased === "done" ? labelWorker.process(deviceId as DeviceId, signal) : erased;
    });
    this.#unexports = this.#queue("unexports", maxPublications, (key, signal) => unexportWorker.process(key, signal));
    this.#waitingMoves = new WaitingMoves(context.tablet, (diskId) => this.#moves.enqueue(diskId));
    this.#moveWorker = new MoveWorker(workOf("moves", context), moved, this.#waitingMoves);
    this.#moves = this.#queue("moves", maxMoves, (diskId, signal) =>
      this.#moveWorker.process(diskId as DiskId, signal),
    );
    const removalWorker = new RemovalWorker(workOf("removals", context));
    this.#removals = this.#queue("removals", maxOrderedHosts, (hostId) => removalWorker.process(hostId as HostId));
    this.#graceWorker = new GraceWorker(workOf("ends of the grace of deletions", context));
    this.#graces = this.#queue("graces", 1, (diskId) => this.#graceWorker.process(diskId as DiskId));
    this.#unwatch = context.tablet.watch((changes) => this.#wakeFor(changes));
    this.#monitor = new HostMonitor(workOf("host monitor", context), {
      online: (hostId) => this.wakeHost(hostId),
      unavailable: (hostId) => this.wakeHost(hostId),
      fenced: (diskIds) => this.wakeFences(diskIds),
      seenOtherwise,
    });
  }

  #queue(
    name: string,
    concurrency: number,
    process: (key: string, signal: AbortSignal) => Promise<WorkResult>,
  ): WorkQueue {
    const { clock, random, log, limits } = this.#context;
    return new WorkQueue({
      name,
      concurrency,
      backoff: limits.backoff,
      clock,
      random,
      process,
      onFailure: ({ queue, key, attempts, retryInMs, error }) =>
        log.info({ queue, key, attempts, retryInMs, error: messageOf(error) }, "work item failed, retrying"),
    });
  }

  /** Queue lengths. */
  get counts() {
    const [orders, publications] = [this.#orders.counts, this.#publications.counts];
    return {
      orders,
      publications,
      erases: this.#erases.counts,
      unexports: this.#unexports.counts,
      moves: this.#moves.counts,
      removals: this.#removals.counts,
      graces: this.#graces.counts,
    };
  }

  /** Returns the facts about work on a device that are kept in memory only. */
  progressOf(device: Device): Pick<DeviceProgress, "nextAttemptAtMs" | "erasedBytes" | "pending"> {
    const { clock } = this.#context;
    const dueAtMs = awaitsOrder(device)
      ? this.#orderWorker.dueAtMs(device)
      : isErasable(device) && device.lastError !== ""
        ? this.#erases.dueAtMs(device.deviceId)
        : undefined;
    const nextAttemptAtMs = dueAtMs === undefined ? undefined : clock.nowMs() + dueAtMs - clock.monotonicMs();
    const { erasedBytes, pending } = this.eraseState(device);
    return { nextAttemptAtMs, erasedBytes, pending };
  }

  eraseState(device: Device): EraseState {
    return this.#eraseWorker.stateOf(device);
  }

  moveProgressOf(diskId: DiskId): MoveProgress | undefined {
    return this.#moveWorker.progressOf(diskId);
  }

  /**
   * Wakes the work that a change lets go on: erases of freed devices, changes of published disks, moves, and removals.
   */
  #wakeFor(changes: readonly StoredChange[]): void {
    const failing: Device[] = [];
    for (const change of changes) {
      const { table, document, previous } = change;
      for (const hostId of hostsThatMayLeave(change)) this.#removals.enqueue(hostId);
      if (table === "disks") this.#wakeNextMoves(document as Disk | null, previous?.document as Disk | undefined);
      if (document === null) continue;
      if (table === "disks") {
        const [disk, before] = [document as Disk, previous?.document as Disk | undefined];
        if (isNewChange(disk, before)) this.wakeDisk(disk.diskId);
        if (isMoveDue(disk, before)) this.#moves.enqueue(disk.diskId);
        if (isDeleted(disk)) this.#graces.enqueue(disk.diskId);
      }
      if (table !== "devices") continue;
      const [device, before] = [document as Device, previous?.document as Device | undefined];
      if (isToClose(device, before)) this.#orders.enqueue(device.hostId);
      if (isToOverwrite(device) && !(before && isToOverwrite(before))) this.#erases.enqueue(device.deviceId);
      if (this.#isLeft(device) && !(before && this.#isLeft(before))) failing.push(device);
    }
    this.#leave(failing, true);
  }

  /** Lets the next moves begin once a copy of a disk has ended, however that was. */
  #wakeNextMoves(disk: Disk | null, before: Disk | undefined): void {
    if (before === undefined || moveStateOf(before.parts) !== "copying") return;
    if (disk !== null && moveStateOf(disk.parts) === "copying") return;
    // Nobody waits for this work. A read fails only when the tablet is lost, which ends the process.
    this.#waitingMoves.wakeNext(before.parts).catch(() => {});
  }

  /** Returns whether the disk on the device is to be moved, because the device is failing. */
  #isLeft(device: Device): boolean {
    return isFailing(device) && this.#context.config.moves.failingDevicesOfPools.has(device.pool);
  }

  #leave(failing: readonly Device[], isNew: boolean): void {
    if (failing.length === 0) return;
    const { tablet, clock } = this.#context;
    const leaving = tablet.transact((tx) => leaveFailing(tx, failing, { nowMs: clock.nowMs(), isNew }));
    // Nobody waits for this work. A transaction fails only when the tablet is lost, which ends the process.
    leaving.catch(() => {});
  }

  /** Wakes the workers for all work that the loaded tables contain. */
  async wakeAll(): Promise<void> {
    await this.#monitor.begin();
    const { tablet } = this.#context;
    const unwantedBy = await tablet.read((tables) => {
      for (const host of tables.hosts.entries()) this.#wakeDevicesOf(tables, host.hostId);
      for (const state of ["PUBLISHING", "UNPUBLISHING"]) {
        for (const disk of tables.disks.by("byPublicationState", state)) this.wakeDisk(disk.diskId);
      }
      for (const disk of tables.disks.by("byPendingChange", "PUBLISHED")) this.wakeDisk(disk.diskId);
      for (const state of ["copying", "waiting"])
        for (const disk of tables.disks.by("byMove", state)) this.#moves.enqueue(disk.diskId);
      for (const disk of deletedDisks(tables)) this.#graces.enqueue(disk.diskId);
      const pools = [...this.#context.config.moves.failingDevicesOfPools];
      this.#leave(
        pools.flatMap((pool) => [...tables.devices.by("failingByPool", pool)]),
        false,
      );
      const hosts = [...tables.hosts.entries()];
      return hosts.filter((host) => host.servesUnwanted && !host.mustRegister).map(({ hostId }) => hostId);
    });
    if (unwantedBy.length > 0) await tablet.transact((tx) => requireRegistration(tx, unwantedBy));
  }

  /** Wakes all work that waited for the host. Called when the host is heard. */
  wakeHost(hostId: HostId): void {
    this.#orderWorker.forgetTries(hostId);
    const waking = this.#context.tablet.read((tables) => {
      this.#wakeDevicesOf(tables, hostId);
      for (const diskId of disksOn([...tables.devices.by("usedByHost", hostId)]))
        if (tables.disks.get(diskId)?.publication !== undefined) this.wakeDisk(diskId);
      for (const disk of tables.disks.by("byPublicationHost", hostId)) this.wakeDisk(disk.diskId);
    });
    // No caller waits for this work. A read fails only when the tablet is lost, which ends the process.
    waking.catch(() => {});
  }

  /** Wakes the orders and erases that the devices await. */
  wakeDevices(devices: readonly Device[]): void {
    for (const device of devices) {
      if (awaitsOrder(device)) this.#orders.enqueue(device.hostId);
      // A device in backoff is not woken, so that repeated requests do not speed up the retries.
      else if (isErasable(device) && this.#erases.dueAtMs(device.deviceId) === undefined)
        this.#erases.enqueue(device.deviceId);
    }
  }

  #wakeDevicesOf(tables: RegistryTables, hostId: HostId): void {
    if (tables.devices.count("awaitingOrderByHost", hostId) > 0) this.#orders.enqueue(hostId);
    for (const index of ["erasableByHost", "labelDueByHost"] as const)
      for (const device of tables.devices.by(index, hostId)) this.#erases.enqueue(device.deviceId);
    if (tables.devices.count("leavingByHost", hostId) > 0) this.#removals.enqueue(hostId);
  }

  wakeDisk(diskId: DiskId): void {
    this.#publications.enqueue(diskId);
  }

  /** Aborts requests to the disks' former hosts, and starts the fences. */
  wakeFences(diskIds: readonly DiskId[]): void {
    for (const diskId of diskIds) {
      this.#publicationWorker.abandon(diskId);
      this.wakeDisk(diskId);
    }
  }

  /** Returns, by device, why it refused the disk's session in the last try. */
  answersOf(diskId: DiskId): ReadonlyMap<DeviceId, string> {
    return this.#publicationWorker.answersOf(diskId);
  }

  wakeErase(deviceIds: readonly DeviceId[]): void {
    for (const deviceId of deviceIds) this.#erases.enqueue(deviceId);
  }

  /** Erases deleted disks whose bytes the allocation needs; returns whether there are some. */
  makeRoom(needed: Needed | undefined): Promise<boolean> {
    return this.#graceWorker.makeRoom(needed);
  }

  wakeUnexport(unexport: Unexport): void {
    this.#unexports.enqueue(unexportKey(unexport));
  }

  async close(): Promise<void> {
    await this.#monitor.close();
    this.#unwatch();
    const hostQueues = [this.#orders, this.#erases, this.#removals];
    const diskQueues = [this.#publications, this.#unexports, this.#moves, this.#graces];
    await Promise.all([...hostQueues, ...diskQueues].map((queue) => queue.close()));
  }
}
