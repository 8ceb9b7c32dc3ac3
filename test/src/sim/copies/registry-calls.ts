import {
  askedDevices,
  beginFence,
  beginPublication,
  type CopiedDisk,
  completeSession,
  devicesIn,
  endSnapshot,
  isIssuedBefore,
  mayDropUnheard,
  noteCleanEnd,
  noteSnapshotGrant,
  noteTargetGrant,
  orderOf,
  prove,
  renewSession,
  retryTarget,
  sessionOfCopy,
} from "@diskmesh/disk-registry/simulation";
import type { CopyRecord, DeviceId, DiskId } from "@diskmesh/domain";
import type { Leader } from "./leader.js";
import { type CopyWorld, REGISTRY } from "./parts.js";
import type { CopyStore } from "./store.js";

const AGAIN_MS = 1_000;
const DROP_LIMITS = { copyGrantTimeoutMs: 10_000, readLeaseMs: 6_000 };

/** The registry, as its calls to agents use it. */
interface Caller {
  readonly store: CopyStore;
  readonly leader: Leader | undefined;
  commit(after: CopiedDisk | undefined): void;
}

/** Sends what the store says that agents are to do, and takes their answers. */
export function sayToDevices(registry: Caller, leader: Leader, world: CopyWorld): void {
  new Calls(registry, leader, world).all();
}

interface Grant {
  readonly isGranted: boolean;
  readonly highest: number;
  readonly record: CopyRecord | undefined;
}

class Calls {
  constructor(
    private readonly registry: Caller,
    private readonly leader: Leader,
    private readonly world: CopyWorld,
  ) {}

  all(): void {
    for (const diskId of [...this.registry.store.disks.keys()]) this.#ofDisk(diskId);
    const isProven = [...this.registry.store.disks.values()].every(({ isUnproven }) => !isUnproven);
    if (isProven) for (const deviceId of this.registry.store.dirty) this.#erase(deviceId);
  }

  #disk(diskId: DiskId): CopiedDisk | undefined {
    return this.registry.leader === this.leader ? this.registry.store.disks.get(diskId) : undefined;
  }

  #ofDisk(diskId: DiskId): void {
    const disk = this.registry.store.disks.get(diskId) as CopiedDisk;
    switch (disk.publication?.state) {
      case "PUBLISHING":
      case "FENCING":
        this.#ask(disk);
        return;
      case "ENDING":
        this.#end(disk);
        return;
      case "PUBLISHED":
        this.#order(disk);
        this.#openTargets(disk);
    }
  }

  /** Sends unless the same was sent a moment ago; takes no answer when another process leads by then. */
  #send<T>(key: string, to: string, handle: (answer: (value: T) => void) => void, answered: (value: T) => void): void {
    if (!this.leader.maySend(key, this.world.timeline.nowMs, AGAIN_MS)) return;
    this.world.call<T>(REGISTRY, to, handle, (value) => {
      if (this.registry.leader === this.leader) answered(value);
    });
  }

  #open(deviceId: DeviceId, session: number, answered: (grant: Grant) => void): void {
    const drive = this.world.driveOf(deviceId);
    this.#send<Grant>(
      `open ${deviceId} ${session}`,
      drive.hostId,
      (answer) => drive.open(session, (isGranted, highest) => answer({ isGranted, highest, record: drive.ownRecord })),
      (grant) => {
        const { store } = this.registry;
        store.counter = Math.max(store.counter, grant.highest);
        answered(grant);
      },
    );
  }

  #ask(disk: CopiedDisk): void {
    const { diskId, publication } = disk;
    const session = publication?.session ?? 0;
    const devices = disk.isUnproven ? this.#suspects(disk, session) : disk.parts.flatMap(askedDevices);
    const { nowMs } = this.world.timeline;
    for (const deviceId of devices) {
      this.leader.sinceMs(`ask ${deviceId} ${session}`, nowMs);
      if (this.leader.grantOf(session, deviceId) !== undefined) continue;
      this.#open(deviceId, session, ({ isGranted, record }) => {
        const now = this.#disk(diskId);
        if (isGranted) this.leader.grants.set(`${session} ${deviceId}`, { record, atMs: this.world.timeline.nowMs });
        else if (now?.publication?.session === session && now.publication.state !== "PUBLISHED")
          this.registry.commit(renewSession(now, this.registry.store.next()));
        this.#complete(diskId, session);
      });
    }
    this.#complete(diskId, session);
  }

  /** Returns the devices whose bytes may be the disk's, after a look at the records of all. */
  #suspects(disk: CopiedDisk, session: number): readonly DeviceId[] {
    const { leader, world } = this;
    const suspects: DeviceId[] = [];
    for (const deviceId of world.deviceIds) {
      const key = `${session} ${deviceId}`;
      if (!leader.looks.has(key)) {
        const drive = world.driveOf(deviceId);
        this.#send<{ record: CopyRecord | undefined }>(
          `look ${key}`,
          drive.hostId,
          (answer) => drive.look((record) => answer({ record })),
          ({ record }) => {
            leader.looks.set(key, record);
            const now = this.#disk(disk.diskId);
            if (record === undefined || now?.publication?.session !== session || !isIssuedBefore(now, record)) return;
            const { store } = this.registry;
            store.counter = Math.max(store.counter, record.session);
            this.registry.commit(renewSession(now, store.next()));
          },
        );
        continue;
      }
      const record = leader.looks.get(key);
      const isCopy = disk.parts.some(({ copies }) => copies.some((copy) => copy.deviceId === deviceId));
      if (record?.diskId === disk.diskId || (record === undefined && isCopy)) suspects.push(deviceId);
    }
    return suspects;
  }

  #complete(diskId: DiskId, session: number): void {
    const disk = this.#disk(diskId);
    if (disk?.publication?.session !== session) return;
    if (disk.isUnproven) {
      this.#prove(disk, session);
      return;
    }
    const { store } = this.registry;
    const { nowMs } = this.world.timeline;
    const granted = new Map<DeviceId, { saysCounts: boolean }>();
    const excused = new Set<DeviceId>();
    for (const [index, part] of disk.parts.entries())
      for (const deviceId of askedDevices(part)) {
        const grant = this.leader.grantOf(session, deviceId);
        const { record } = grant ?? {};
        const saysCounts = record?.diskId === diskId && record.part === index && record.own === "COUNTS";
        if (grant !== undefined) granted.set(deviceId, { saysCounts });
        else if (this.#mayDrop(disk, session, index, deviceId)) excused.add(deviceId);
      }
    this.registry.commit(store.withNumber((layout) => completeSession(disk, { granted, excused, nowMs, layout })));
  }

  #mayDrop(disk: CopiedDisk, session: number, index: number, deviceId: DeviceId): boolean {
    const { leader, world } = this;
    const { nowMs } = world.timeline;
    const others = devicesIn(disk.parts[index] ?? { layout: 0, copies: [] }, "COUNTS").filter(
      (each) => each !== deviceId,
    );
    const grantedMs = others.flatMap((each) => leader.grantOf(session, each)?.atMs ?? []);
    const silent = world.hostIds.filter((hostId) => leader.isSilent(hostId, nowMs));
    return mayDropUnheard(
      {
        isHostSilent: leader.isSilent(world.hostOf(deviceId), nowMs),
        askedForMs: nowMs - leader.sinceMs(`ask ${deviceId} ${session}`, nowMs),
        othersGrantedForMs: grantedMs.length === 0 ? undefined : nowMs - Math.min(...grantedMs),
        isWaitedFor: true,
        isMassSilence: silent.length * 2 > world.hostIds.length,
      },
      DROP_LIMITS,
    );
  }

  #prove(disk: CopiedDisk, session: number): void {
    const heard = new Map<DeviceId, CopyRecord | undefined>();
    for (const deviceId of this.world.deviceIds) {
      const key = `${session} ${deviceId}`;
      const look = this.leader.looks.get(key);
      const grant = this.leader.grants.get(key);
      if (grant !== undefined) heard.set(deviceId, grant.record);
      else if (this.leader.looks.has(key) && look?.diskId !== disk.diskId) heard.set(deviceId, look);
    }
    const proof = prove(disk, heard);
    const { store } = this.registry;
    store.counter = Math.max(store.counter, proof.highestNumber);
    if (proof.is === "waits") {
      this.leader.awaited.set(disk.diskId, proof.for);
      if (this.world.isTraced) this.world.trace(`registry: ${disk.diskId} waits for ${proof.for}`);
      this.registry.commit(proof.disk);
      return;
    }
    this.registry.commit(proof.disk);
    this.#complete(disk.diskId, session);
  }

  #end({ diskId, publication }: CopiedDisk): void {
    if (publication === undefined) return;
    const { hostId, session } = publication;
    this.#send<{ revision: number; isClean: boolean }>(
      `end ${diskId} ${session}`,
      hostId,
      (answer) => this.world.machineOf(hostId).end(diskId, session, answer),
      ({ revision, isClean }) => {
        const disk = this.#disk(diskId);
        if (disk?.publication?.session !== session || disk.publication.state !== "ENDING") return;
        const ended = isClean ? noteCleanEnd(disk, { session, revision }) : disk;
        this.registry.commit(beginFence(ended, this.registry.store.next()));
      },
    );
  }

  #order(disk: CopiedDisk): void {
    const order = orderOf(disk);
    const { diskId, publication } = disk;
    if (order === undefined || publication === undefined) return;
    const { hostId, session, revision } = publication;
    const runId = this.registry.store.runs.get(hostId) ?? "";
    this.#send<boolean>(
      `serve ${diskId} ${session} ${revision}`,
      hostId,
      (answer) => this.world.machineOf(hostId).serve(diskId, runId, order, answer),
      (isServed) => {
        const now = this.#disk(diskId);
        if (isServed || now?.publication?.session !== session || now.publication.state !== "PUBLISHED") return;
        this.registry.commit(beginPublication(now, now.publication, this.registry.store.next()));
      },
    );
  }

  #openTargets(disk: CopiedDisk): void {
    const { diskId, snapshot } = disk;
    for (const [index, { copies }] of disk.parts.entries())
      for (const copy of copies) {
        if ((copy.state !== "COPYING" && copy.state !== "RESYNC") || copy.isOpen) continue;
        const { deviceId } = copy;
        const session = sessionOfCopy(disk, copy);
        this.#open(deviceId, session, (grant) => {
          const now = this.#disk(diskId);
          if (now === undefined) return;
          const { store } = this.registry;
          if (grant.isGranted)
            this.registry.commit(
              store.withNumber((layout) => noteTargetGrant(now, index, deviceId, { session, layout })),
            );
          else this.registry.commit(retryTarget(now, index, deviceId, this.registry.store.next()));
        });
      }
    for (const deviceId of snapshot?.targets ?? [])
      if (snapshot !== undefined && !snapshot.granted.includes(deviceId))
        this.#open(deviceId, snapshot.targetSession, (grant) => {
          const now = this.#disk(diskId);
          if (now === undefined) return;
          if (grant.isGranted) this.registry.commit(noteSnapshotGrant(now, deviceId, snapshot.targetSession));
          else this.registry.commit(endSnapshot(now, snapshot));
        });
  }

  #erase(deviceId: DeviceId): void {
    const drive = this.world.driveOf(deviceId);
    const { store } = this.registry;
    if (!this.leader.maySend(`erase ${deviceId}`, this.world.timeline.nowMs, AGAIN_MS)) return;
    const session = store.next();
    const { erasing } = this.leader;
    erasing.set(deviceId, session);
    this.#send<{ isErased: boolean; highest: number }>(
      `erase ${deviceId} ${session}`,
      drive.hostId,
      (answer) => drive.erase(session, (isErased, highest) => answer({ isErased, highest })),
      ({ isErased, highest }) => {
        if (!isErased) store.counter = Math.max(store.counter, highest);
        else if (erasing.get(deviceId) === session) {
          store.dirty.delete(deviceId);
          erasing.delete(deviceId);
        }
      },
    );
  }
}
