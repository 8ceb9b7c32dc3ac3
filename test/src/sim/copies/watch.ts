import type { CopyRequest, Holder, Leg } from "@diskmesh/disk-agent/simulation";
import { type CopiedDisk, devicesIn } from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId } from "@diskmesh/domain";
import { Flaps } from "./flaps.js";
import { type BlockHistory, DiskHistory } from "./history.js";
import { whyNotLinear } from "./linear.js";
import type { BlockAt, CopyWorld, Said, SimDrive } from "./parts.js";

/** Contents of a snapshot's targets, and the moment of the cut. */
interface Cut {
  readonly diskId: DiskId;
  readonly contents: readonly (readonly number[])[];
  readonly moment: number;
}

/** Drops from which on a device gets no copy before an operator has looked at it. */
const MOST_DROPS = 3;

/** Watches what the protocol promises. */
export class Watch {
  readonly histories = new Map<DiskId, DiskHistory>();
  readonly done = {
    "copies were filled": 0,
    dropped: 0,
    "not chosen": 0,
    "snapshots cut": 0,
    "disks proven after a restore": 0,
    "lost copies accepted": 0,
    "disks deleted": 0,
  };
  readonly flaps = new Flaps();
  readonly #cuts = new Map<string, Cut>();
  /** Drops of devices since an operator has looked at them. */
  readonly #drops = new Map<DeviceId, number>();
  #moment = 0;
  /** Called when a set of counting copies has changed. */
  onChange: ((before: CopiedDisk, after: CopiedDisk) => void) | undefined;
  /** Number of changes of sets of counting copies. */
  changes = 0;

  constructor(
    private readonly world: CopyWorld,
    private readonly disks: () => ReadonlyMap<DiskId, CopiedDisk>,
  ) {}

  moment(): number {
    this.#moment += 1;
    return this.#moment;
  }

  blockAt({ diskId, part, block }: BlockAt): BlockHistory | undefined {
    return this.histories.get(diskId)?.parts[part]?.[block];
  }

  committed(before: CopiedDisk | undefined, after: CopiedDisk): void {
    const { diskId, parts } = after;
    if (before !== undefined) {
      this.#count(before, after);
      return;
    }
    const [, cut] = [...this.#cuts].find(([jobId]) => this.world.snapshotId(jobId) === diskId) ?? [];
    this.histories.set(diskId, cut === undefined ? DiskHistory.empty(parts.length) : new DiskHistory(cut.contents));
    if (cut === undefined) return;
    for (const [part, blocks] of (this.histories.get(cut.diskId)?.parts ?? []).entries())
      for (const [block, history] of blocks.entries()) history.isNow(cut.contents[part]?.[block] ?? -1, cut.moment);
  }

  #count(before: CopiedDisk, after: CopiedDisk): void {
    const { done } = this;
    if (before.isUnproven && !after.isUnproven) done["disks proven after a restore"] += 1;
    for (const [index, part] of after.parts.entries()) {
      const was = before.parts[index];
      if (was !== undefined && was.layout !== part.layout) {
        this.changes += 1;
        this.onChange?.(before, after);
      }
      if (was === undefined || before.isUnproven) continue;
      for (const { deviceId, state } of part.copies) {
        const stateBefore = was.copies.find((copy) => copy.deviceId === deviceId)?.state;
        if (state === "COPYING" && (stateBefore === undefined || stateBefore === "DROPPED"))
          this.#checkPlace(after.diskId, index, part, deviceId);
        if (state === "COUNTS" && stateBefore !== "COUNTS") done["copies were filled"] += 1;
        if (state === "DROPPED" && stateBefore === "COUNTS") {
          done.dropped += 1;
          this.#drops.set(deviceId, (this.#drops.get(deviceId) ?? 0) + 1);
        }
        if (state === "RESYNC" && stateBefore === "COUNTS") done["not chosen"] += 1;
      }
    }
  }

  /** Everything is checked that users saw of the disk. */
  deleted(diskId: DiskId): void {
    this.done["disks deleted"] += 1;
    this.#checkHistory(diskId);
    this.histories.delete(diskId);
  }

  /** An operator has looked at a device that was dropped often. */
  looked(deviceId: DeviceId): void {
    this.#drops.delete(deviceId);
  }

  /**
   * A person gives up writes: those since a copy was dropped, which has all that was flushed before, or, without a copy,
   * those that a device alone may have.
   */
  accepted(diskId: DiskId, copy: { part: number; deviceId: DeviceId; sinceMs: number } | undefined): void {
    this.done["lost copies accepted"] += 1;
    const history = this.histories.get(diskId);
    for (const [part, blocks] of (history?.parts ?? []).entries()) {
      if (copy !== undefined && copy.part !== part) continue;
      history?.lostPower.add(`${part}`);
      for (const [block, each] of blocks.entries()) {
        const floor = each.forgetSince(copy?.sinceMs ?? 0);
        const has = copy && this.world.driveOf(copy.deviceId).durable[block];
        if (has !== undefined && has < floor)
          this.world.violation(
            `${diskId} part ${part} block ${block}: write ${floor} was flushed before ${copy?.deviceId} was dropped, and it has ${has}`,
          );
      }
    }
  }

  /** A copy is dropped on what its holder said of the present session and revision. */
  obeyedDrop({ diskId, publication }: CopiedDisk, said: Said): void {
    if (publication?.session === said.session && publication.revision === said.revision) return;
    const now = `${publication?.session}/${publication?.revision}`;
    this.world.violation(
      `${diskId}: ${said.deviceId} was dropped in ${now}, as said in ${said.session}/${said.revision}`,
    );
  }

  /** A copy begins on a host that is steady, and has no other copy of the part which stays. */
  #checkPlace(
    diskId: DiskId,
    index: number,
    { copies, moveFrom }: CopiedDisk["parts"][number],
    deviceId: DeviceId,
  ): void {
    const hostId = this.world.hostOf(deviceId);
    const why = this.flaps.whyUnsteady(hostId, this.world.timeline.nowMs);
    if (why !== undefined) this.world.violation(`${diskId} part ${index}: a copy begins on ${deviceId}, and ${why}`);
    if ((this.#drops.get(deviceId) ?? 0) >= MOST_DROPS)
      this.world.violation(
        `${diskId} part ${index}: a copy begins on ${deviceId}, which was dropped ${MOST_DROPS} times`,
      );
    const other = copies.find(
      (copy) =>
        ![deviceId, moveFrom].includes(copy.deviceId) &&
        copy.state !== "DROPPED" &&
        this.world.hostOf(copy.deviceId) === hostId,
    );
    if (other !== undefined)
      this.world.violation(
        `${diskId} part ${index}: a copy begins on ${deviceId}, and ${other.deviceId} is on ${hostId}, too`,
      );
  }

  /** A store went back: disks that it does not know are gone. */
  forgetOthers(): void {
    this.#drops.clear();
    for (const diskId of this.histories.keys()) if (!this.disks().has(diskId)) this.histories.delete(diskId);
  }

  /** A holder begins to serve a part: it reads what the registry has chosen, and all that counts is alike. */
  chosen(diskId: DiskId, part: number, holder: object): void {
    this.#checkAlike(diskId, part);
    const history = this.histories.get(diskId);
    const now = this.moment();
    const lost = [...(history?.lostPower ?? [])].filter((key) => key.split(" ")[0] === `${part}`);
    const counting = devicesIn(this.disks().get(diskId)?.parts[part] ?? { layout: 0, copies: [] }, "COUNTS");
    const mayLose = [`${part}`, ...counting.map((deviceId) => `${part} ${deviceId}`)].some((key) => lost.includes(key));
    for (const block of history?.parts[part] ?? []) block.choose(now, mayLose, holder);
    for (const key of lost) history?.lostPower.delete(key);
  }

  /** A holder is bound to say of a copy that it is equal: it has what the others have, but for what is being written. */
  equal(before: Holder, now: Holder, running: readonly { readonly request: CopyRequest }[]): void {
    if (before === now) return;
    for (const [part, { legs }] of now.parts.entries()) {
      const [source] = legs;
      for (const [index, leg] of legs.entries())
        if (
          leg.filling === "bound" &&
          before.parts[part]?.legs[index]?.filling !== "bound" &&
          source?.failure === undefined
        )
          this.#checkEqual({ ...now, part }, source as Leg, leg, (block) =>
            running.some(({ request: { kind, ...at } }) => kind === "write" && at.part === part && at.block === block),
          );
    }
  }

  #checkEqual(
    { diskId, part, session }: { readonly diskId: DiskId; readonly part: number; readonly session: number },
    source: Leg,
    { deviceId, bootId }: Leg,
    isWritten: (block: number) => boolean,
  ): void {
    const [from, to] = [this.world.driveOf(source.deviceId), this.world.driveOf(deviceId)];
    // After a fence the bytes may be erased, and the registry does not believe the holder.
    if (from.session !== session || to.session !== session) return;
    // A machine that lost its power has lost what was not flushed, and its copy is dropped for that.
    if (from.bootId !== source.bootId || to.bootId !== bootId) return;
    for (const [block, value] of from.contents.entries())
      if (!isWritten(block) && to.contents[block] !== value)
        this.world.violation(
          `${diskId} part ${part} block ${block}: ${deviceId} is said to be equal to ${source.deviceId}, which has ${value}, and has ${to.contents[block]}`,
        );
  }

  #checkAlike(diskId: DiskId, part: number): void {
    const disk = this.disks().get(diskId);
    const stored = disk?.parts[part];
    if (disk === undefined || stored === undefined || disk.isUnproven) return;
    const [first, ...others] = devicesIn(stored, "COUNTS");
    const contents = (deviceId: DeviceId): string => this.world.driveOf(deviceId).contents.join();
    for (const other of others)
      if (first !== undefined && contents(other) !== contents(first))
        this.world.violation(
          `${diskId} part ${part} is served, and of its counting copies ${first} has ${contents(first)}, ${other} ${contents(other)}`,
        );
  }

  /**
   * A holder has cut: at this moment the targets have what the disk has, unless one of them has lost its power. That ends
   * the snapshot before it becomes a disk.
   */
  cut(diskId: DiskId, jobId: string, targets: readonly DeviceId[]): void {
    const contents = targets.map((deviceId) => [...this.world.driveOf(deviceId).contents]);
    this.#cuts.set(jobId, { diskId, contents, moment: this.moment() });
    this.done["snapshots cut"] += 1;
  }

  readFrom(diskId: DiskId, part: number, deviceId: DeviceId): void {
    const disk = this.disks().get(diskId);
    const copy = disk?.parts[part]?.copies.find((each) => each.deviceId === deviceId);
    if (disk === undefined || disk.isUnproven || copy?.state === "COUNTS" || copy?.state === "LEAVING") return;
    this.world.violation(
      `${diskId} part ${part} was read from ${deviceId}, which is ${copy?.state ?? "no copy of it"}`,
    );
  }

  losesPower({ deviceId, ownRecord }: SimDrive): void {
    if (ownRecord === undefined) return;
    const { diskId, part, own } = ownRecord;
    this.histories.get(diskId)?.lostPower.add(own === "COUNTS" ? `${part}` : `${part} ${deviceId}`);
  }

  /** Every write that was acknowledged and flushed is in every copy that counts. */
  checkCopies(): void {
    for (const { diskId, parts, isUnproven } of this.disks().values()) {
      if (isUnproven) continue;
      for (const [index, part] of parts.entries())
        for (const deviceId of devicesIn(part, "COUNTS")) this.#checkCopy(diskId, index, deviceId);
    }
  }

  #checkCopy(diskId: DiskId, part: number, deviceId: DeviceId): void {
    const { durable } = this.world.driveOf(deviceId);
    for (const [block, { floor }] of (this.histories.get(diskId)?.parts[part] ?? []).entries())
      if ((durable[block] ?? -1) < floor)
        this.world.violation(
          `${diskId} part ${part} block ${block}: write ${floor} was acknowledged and flushed, and ${deviceId}, which counts, has ${durable[block]}`,
        );
  }

  checkHistories(): void {
    for (const diskId of this.histories.keys()) this.#checkHistory(diskId);
  }

  /** Each block's uses have an order that explains them. */
  #checkHistory(diskId: DiskId): void {
    for (const [part, blocks] of (this.histories.get(diskId)?.parts ?? []).entries())
      for (const [block, { uses, initial }] of blocks.entries()) {
        const why = whyNotLinear(uses, initial);
        if (why !== undefined) this.world.violation(`${diskId} part ${part} block ${block}: ${why}`);
      }
  }
}
