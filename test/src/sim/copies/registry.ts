import type { HolderOrder } from "@diskmesh/disk-agent/simulation";
import {
  addCopy,
  asUnproven,
  beginEnd,
  beginFence,
  beginPublication,
  type CopiedDisk,
  changePart,
  devicesIn,
  dropCopy,
  endSnapshot,
  freeable,
  isExportLost,
  isSteady,
  isTrouble,
  keptCopies,
  leaveCopy,
  leaveSurplus,
  misplacedCopy,
  noteConfirmed,
  noteEqual,
  noteFreed,
  noteHeard,
  noteSilent,
  orderOf,
  planRepairs,
  steady,
  takeCut,
  withDrop,
} from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { Leader } from "./leader.js";
import type { CopyWorld, Registration, Said } from "./parts.js";
import { sayToDevices } from "./registry-calls.js";
import { CopyStore } from "./store.js";

const TICK_MS = 400;
const UNAVAILABLE_MS = 8_000;
const STEADINESS = { shortestMs: 4_000, longestMs: 15_000 };
/** Longer than holders keep requests: what failed at its users is not begun again in another session. */
const STUCK_MS = 15_000;
const REPAIR_LIMIT = 4;
const END_TIMEOUT_MS = 12_000;

/** A simulated registry: its store, and the leader that decides on it with the model's functions. */
export class Registry {
  store = new CopyStore();
  leader: Leader | undefined;

  constructor(private readonly world: CopyWorld) {
    this.#tick();
  }

  /** Another process leads from here on: what the former one heard is lost, and its answers come to nothing. */
  lead(): void {
    this.leader = new Leader(this.world.timeline.nowMs);
    this.world.watch.flaps.forget();
  }

  end(): void {
    this.leader = undefined;
  }

  /** Continues from an earlier state. A restore skips numbers; a folder that was copied back has the old ones. */
  goBack(backup: CopyStore, isRestored: boolean): void {
    this.leader = undefined;
    this.store = new CopyStore(backup);
    const { store } = this;
    if (isRestored) store.counter += 100_000;
    store.runs.clear();
    store.dirty.clear();
    const host = this.world.hostIds[0] as HostId;
    for (const [diskId, disk] of store.disks) store.disks.set(diskId, asUnproven(disk, host, store.next()));
    const used = store.used();
    for (const deviceId of this.world.deviceIds) if (!used.has(deviceId)) store.dirty.add(deviceId);
  }

  commit(after: CopiedDisk | undefined): void {
    if (after === undefined) return;
    const before = this.store.disks.get(after.diskId);
    if (before === after) return;
    this.#change((disks) => disks.set(after.diskId, after));
    const { drops } = this.store;
    for (const deviceId of droppedBy(before, after))
      drops.set(deviceId, withDrop(drops.get(deviceId) ?? [], this.world.timeline.nowMs));
    if (this.world.isTraced) this.world.trace(`registry: ${describe(after)}`);
    this.world.watch.committed(before, after);
  }

  delete(diskId: DiskId): void {
    this.#change((disks) => disks.delete(diskId));
    if (this.world.isTraced) this.world.trace(`registry: ${diskId} is deleted`);
    this.world.watch.deleted(diskId);
  }

  /** Has devices erased that no disk has any more. */
  #change(change: (disks: Map<DiskId, CopiedDisk>) => void): void {
    const { store } = this;
    const used = store.used();
    change(store.disks);
    const still = store.used();
    for (const deviceId of used) if (!still.has(deviceId) && !store.removed.has(deviceId)) store.dirty.add(deviceId);
    for (const deviceId of still) store.dirty.delete(deviceId);
  }

  // Calls of agents.

  register({ hostId, runId, served }: Registration, answer: (isRegistered: true) => void): void {
    const { leader } = this;
    if (leader === undefined) return;
    leader.registered.add(hostId);
    this.store.runs.set(hostId, runId);
    this.#heard(hostId);
    for (const disk of this.store.disks.values()) {
      const servedSessions = [served.get(disk.diskId) ?? 0];
      if (isExportLost(disk, { hostId, servedSessions })) this.#publishAgain(disk);
    }
    answer(true);
  }

  heartbeat(hostId: HostId, runId: string, answer: (isKnown: boolean) => void): void {
    if (this.leader === undefined) return;
    const isKnown = this.leader.registered.has(hostId) && this.store.runs.get(hostId) === runId;
    if (isKnown) this.#heard(hostId);
    answer(isKnown);
  }

  hear(said: Said, answer: (order: HolderOrder | undefined) => void): void {
    if (this.leader === undefined) return;
    const disk = this.store.disks.get(said.diskId);
    if (disk === undefined) {
      answer(undefined);
      return;
    }
    this.#take(disk, said);
    const now = this.store.disks.get(said.diskId) as CopiedDisk;
    answer(now.publication?.session === said.session ? orderOf(now) : undefined);
  }

  #take(disk: CopiedDisk, said: Said): void {
    const { store } = this;
    const { nowMs } = this.world.timeline;
    const { part = 0, deviceId = "" as DeviceId, jobId = "", session, revision } = said;
    switch (said.says) {
      case "DROP": {
        const request = { part, deviceId, session, revision };
        const dropped = (layout: number): CopiedDisk | undefined => {
          const answer = dropCopy(disk, request, { layout, nowMs });
          return answer.is === "dropped" ? answer.disk : undefined;
        };
        const after = store.withNumber(dropped);
        if (after !== undefined) this.world.watch.obeyedDrop(disk, said);
        this.commit(after);
        return;
      }
      case "EQUAL": {
        const equal = { part, deviceId, session, revision };
        this.commit(store.withNumber((layout) => noteEqual(disk, equal, layout)));
        return;
      }
      case "FOLLOWING":
        this.commit(noteConfirmed(disk, { session, revision }));
        return;
      case "SNAPSHOT_FAILED":
        this.commit(endSnapshot(disk, { jobId, session }));
        return;
      case "STUCK":
        if (disk.publication?.session === session && disk.publication.state === "PUBLISHED") this.#noteStuck(disk);
        return;
      case "CUT": {
        const isMade = store.disks.has(this.world.snapshotId(jobId));
        const taken = isMade ? undefined : takeCut(disk, { jobId, session });
        if (taken === undefined) return;
        this.commit(taken.snapshot);
        this.commit(taken.disk);
      }
    }
  }

  /** A holder that has had no copy for a while is published again: the registry chooses one. */
  #noteStuck(disk: CopiedDisk): void {
    const sinceMs =
      this.leader?.sinceMs(`stuck ${disk.diskId} ${disk.publication?.session}`, this.world.timeline.nowMs) ?? 0;
    if (this.world.timeline.nowMs - sinceMs > STUCK_MS) this.#publishAgain(disk);
  }

  #publishAgain(disk: CopiedDisk): void {
    const { publication } = disk;
    if (publication !== undefined) this.commit(beginPublication(disk, publication, this.store.next()));
  }

  #heard(hostId: HostId): void {
    const { nowMs } = this.world.timeline;
    this.leader?.heardAtMs.set(hostId, nowMs);
    this.world.watch.flaps.heard(hostId, nowMs);
    const was = this.store.steadiness.get(hostId) ?? steady(nowMs);
    this.store.steadiness.set(hostId, noteHeard(was, nowMs));
  }

  // Work of the registry by itself.

  #tick(): void {
    const { leader, store, world } = this;
    if (leader !== undefined) {
      const { nowMs } = world.timeline;
      for (const [hostId, was] of store.steadiness)
        if (leader.isSilent(hostId, nowMs)) store.steadiness.set(hostId, noteSilent(was, nowMs, STEADINESS));
      for (const diskId of [...store.disks.keys()]) this.#see(diskId, leader);
      if (![...store.disks.values()].some(({ isUnproven }) => isUnproven)) this.#repair(leader);
      sayToDevices(this, leader, world);
    }
    world.after(TICK_MS, () => this.#tick());
  }

  #isFit(deviceId: DeviceId): boolean {
    const { nowMs } = this.world.timeline;
    const hostId = this.world.hostOf(deviceId);
    const steadiness = this.store.steadiness.get(hostId);
    if (this.leader?.isSilent(hostId, nowMs) || steadiness === undefined) return false;
    return isSteady(steadiness, nowMs) && !isTrouble(this.store.drops.get(deviceId) ?? [], nowMs);
  }

  #see(diskId: DiskId, leader: Leader): void {
    const disk = this.store.disks.get(diskId) as CopiedDisk;
    const { publication } = disk;
    const { nowMs } = this.world.timeline;
    const wanted = this.world.wants.get(diskId);
    const isSilent = publication !== undefined && leader.isSilent(publication.hostId, nowMs);
    if (publication === undefined) {
      this.#publish(disk, wanted, leader);
      return;
    }
    const isWrong = wanted === undefined ? !this.#hasWork(disk) : publication.hostId !== wanted || publication.isRepair;
    switch (publication.state) {
      case "PUBLISHING":
        if (isSilent || isWrong) this.commit(beginFence(disk, this.store.next()));
        return;
      case "PUBLISHED":
        if (isSilent && leader.silentForMs(publication.hostId, nowMs) > UNAVAILABLE_MS)
          this.commit(beginFence(disk, this.store.next()));
        else if (isWrong) this.commit(beginEnd(disk));
        else this.#arrange(disk);
        return;
      case "ENDING":
        if (isSilent || nowMs - leader.sinceMs(`end ${diskId} ${publication.session}`, nowMs) > END_TIMEOUT_MS)
          this.commit(beginFence(disk, this.store.next()));
    }
  }

  #publish(disk: CopiedDisk, wanted: HostId | undefined, leader: Leader): void {
    const { nowMs } = this.world.timeline;
    if (wanted !== undefined) {
      if (!leader.isSilent(wanted, nowMs)) this.commit(beginPublication(disk, { hostId: wanted }, this.store.next()));
      return;
    }
    const holders = disk.parts.flatMap((part) => devicesIn(part, "COUNTS")).map((each) => this.world.hostOf(each));
    const hostId = holders.find((each) => !leader.isSilent(each, nowMs));
    if (this.#hasWork(disk) && hostId !== undefined)
      this.commit(beginPublication(disk, { hostId, isRepair: true }, this.store.next()));
  }

  /** Returns whether the disk has other copies than it is to have. */
  #hasWork({ diskId, parts, copiesWished }: CopiedDisk): boolean {
    if (this.world.isDeleted(diskId)) return false;
    return parts.some((part) => keptCopies(part).length !== copiesWished || part.copies.length !== copiesWished);
  }

  /** Has surplus copies leave. */
  #arrange(disk: CopiedDisk): void {
    for (const index of disk.parts.keys()) {
      const now = this.store.disks.get(disk.diskId) as CopiedDisk;
      const part = now.parts[index];
      if (part === undefined) continue;
      const { moveFrom } = part;
      const isMoved = moveFrom !== undefined && !devicesIn(part, "COUNTS").includes(moveFrom);
      const misplaced = misplacedCopy(part, (deviceId) => this.world.hostOf(deviceId));
      if (isMoved || (moveFrom === undefined && misplaced !== undefined)) {
        this.commit(changePart(now, index, (each) => ({ ...each, moveFrom: isMoved ? undefined : misplaced })));
        continue;
      }
      const counting = devicesIn(part, "COUNTS");
      const left = leaveSurplus(now, index, (deviceId) => this.#isFit(deviceId));
      const leaving = counting.find((deviceId) => deviceId === moveFrom) ?? counting.at(-1);
      if (left !== now) this.commit(left);
      else if (leaving !== undefined && keptCopies(part).length >= now.copiesWished)
        this.commit(this.store.withNumber((layout) => leaveCopy(now, index, leaving, layout)));
      for (const deviceId of freeable(this.store.disks.get(disk.diskId) as CopiedDisk, index))
        this.commit(noteFreed(this.store.disks.get(disk.diskId) as CopiedDisk, index, deviceId));
    }
  }

  #repair(leader: Leader): void {
    const { world, store } = this;
    const disks = [...store.disks.values()].filter(({ publication }) => publication?.state === "PUBLISHED");
    const placeOf = (deviceId: DeviceId): { hostId: HostId; rack: string } => {
      const hostId = world.hostOf(deviceId);
      return { hostId, rack: hostId };
    };
    const isFit = (deviceId: DeviceId): boolean => this.#isFit(deviceId);
    const free = this.freeDevices(leader).map((deviceId) => ({ deviceId, ...placeOf(deviceId) }));
    for (const { disk, part, deviceId } of planRepairs(disks, { free, placeOf, isFit, limit: REPAIR_LIMIT }))
      this.commit(addCopy(store.disks.get(disk.diskId) as CopiedDisk, part, deviceId, store.next()));
  }

  freeDevices(leader: Leader): readonly DeviceId[] {
    const { world, store } = this;
    const used = store.used();
    if ([...store.disks.values()].some(({ isUnproven }) => isUnproven)) return [];
    return world.deviceIds.filter(
      (each) =>
        !used.has(each) &&
        !store.dirty.has(each) &&
        !store.removed.has(each) &&
        this.#isFit(each) &&
        !leader.isSilent(world.hostOf(each), world.timeline.nowMs),
    );
  }
}

function droppedBy(before: CopiedDisk | undefined, { parts }: CopiedDisk): readonly DeviceId[] {
  return parts.flatMap((part, index) => {
    const counted = devicesIn(before?.parts[index] ?? part, "COUNTS");
    return devicesIn(part, "DROPPED").filter((deviceId) => counted.includes(deviceId));
  });
}

function describe({ diskId, parts, publication, isUnclean, isUnproven, snapshot }: CopiedDisk): string {
  const copies = parts.map(
    ({ layout, copies }) =>
      `[${layout}: ${copies.map((c) => `${c.deviceId} ${c.state}${c.isOpen ? "*" : ""}`).join(", ")}]`,
  );
  const { hostId, state, session, revision, confirmedRevision } = publication ?? {};
  const to =
    publication === undefined
      ? "unpublished"
      : `${state} to ${hostId} in ${session}/${revision} (${confirmedRevision})`;
  return `${diskId} ${copies.join(" ")} ${to}${isUnclean ? " unclean" : ""}${isUnproven ? " unproven" : ""}${snapshot ? ` snapshot ${snapshot.jobId}` : ""}`;
}
