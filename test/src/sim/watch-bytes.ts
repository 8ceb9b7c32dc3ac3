import {
  bytesOf,
  type Device,
  type Disk,
  holds,
  holdsAnyDisk,
  partOffsetBytes,
  runAt,
} from "@diskmesh/disk-registry/simulation";
import type { BlockContents, Drive } from "./drive.js";
import { BLOCK_BYTES, type BlockWrite, type MachineWatch } from "./machine.js";
import type { BlockRead, Life, RunOfDevice, UserWrite, World } from "./parts.js";
import type { SimProcess } from "./seed/timeline.js";
import { whyNotEntered } from "./watch-tables.js";

interface Note {
  readonly deviceId: string;
  /** Index of the block on the device. */
  readonly at: number;
  /** Session in which the write was submitted. */
  readonly session: number;
}

/** Blocks of a disk, and where they lie on the device that counts. */
interface CountingPart {
  readonly device: Device;
  /** First block of the part. */
  readonly start: number;
  readonly count: number;
  /** Index of the part's first block on the device. */
  readonly onDevice: number;
}

/**
 * Checks every block that reaches a drive: its session must not be replaced by a newer one, and the device must belong
 * to the writer.
 */
export class ByteWatch implements MachineWatch {
  readonly #writes = new Map<number, UserWrite>();
  /** Last acknowledged write by disk and block. */
  readonly #acknowledged = new Map<string, number>();
  /** Device of each write, by the write's number. */
  readonly #deviceOf = new Map<number, string>();
  /** Device of the last write to each block of a drive: a move writes the same contents to several devices. */
  readonly #deviceAt = new WeakMap<Drive, Map<number, string>>();
  /** Drive of each device, once something was written there. */
  readonly #driveOf = new Map<string, Drive>();

  constructor(private readonly world: World) {}

  begin(diskId: string, session: number, block: number, life: Life): UserWrite {
    const write = { number: this.#writes.size + 1, diskId, session, block, life, landed: false };
    this.#writes.set(write.number, write);
    return write;
  }

  acknowledge(write: UserWrite): void {
    if (!write.landed)
      this.world.violation(`write ${write.number} to disk ${write.diskId} was acknowledged and is nowhere`);
    this.#acknowledged.set(`${write.life.name} ${write.block}`, write.number);
    const disk = this.world.store.disk(write.diskId);
    if (disk !== undefined && this.world.lives.isCurrent(write.life)) this.requireKept(disk);
  }

  /** Returns the number of the last acknowledged write to a block; 0 for none. */
  lastAcknowledged(life: Life, block: number): number {
    return this.#acknowledged.get(`${life.name} ${block}`) ?? 0;
  }

  /** Requires that a block that a disk's user read contains data of that disk only, and nothing overwritten. */
  requireRead({ life, block, contents, atLeast }: BlockRead): void {
    this.#requireOwn(life, contents);
    if (this.#mayBeGone || !this.world.lives.isCurrent(life)) return;
    if (!this.#isLater(contents, life, block, atLeast))
      this.world.violation(
        `block ${block} of disk ${life.name} was read as ${contents}, and write ${atLeast} was acknowledged before`,
      );
  }

  /** Requires that the copies that count have all acknowledged writes to the disk, or later ones. */
  requireKept(disk: Disk): void {
    if (this.#mayBeGone) return;
    const life = this.world.lives.ofDisk(disk);
    for (const part of this.#countingParts(disk)) this.#requireKeptOn(part, life);
  }

  /** Returns the parts of the disk that count, up to one whose device is not known. */
  *#countingParts(disk: Disk): Generator<CountingPart> {
    let start = 0;
    for (const { copies, sizeBytes } of disk.parts) {
      const { deviceId, first = 0, skipBytes = 0 } = copies.find(({ state }) => state === "COUNTS") ?? copies[0] ?? {};
      const device = this.world.store.device(deviceId ?? "");
      if (device === undefined) return;
      const count = (sizeBytes ?? device.sizeBytes) / BLOCK_BYTES;
      const run = runAt(device, disk.diskId, first);
      if (run !== undefined) {
        const onDevice = (partOffsetBytes(device, run) + skipBytes) / BLOCK_BYTES;
        yield { device, start, count, onDevice };
      }
      start += count;
    }
  }

  /** Requires that the copies that counted before a change and those that count now have the same bytes. */
  requireAlike(one: Disk, other: Disk): void {
    if (this.#mayBeGone) return;
    const contentsOf = (disk: Disk) =>
      [...this.#countingParts(disk)].flatMap(({ device: { hostId, deviceId }, onDevice, count }) => {
        const place = this.world.agentOf(hostId)?.devices.find((each) => each.deviceId === deviceId);
        const first = (place?.firstBlock ?? 0) + onDevice;
        return this.#driveAt(hostId, deviceId)?.blocks.slice(first, first + count) ?? [];
      });
    const [before, after] = [contentsOf(one), contentsOf(other)];
    if (before.length === after.length && before.join() !== after.join())
      this.world.violation(`disk ${one.diskId} had ${before.join()}, and has ${after.join()} after its move`);
  }

  #requireKeptOn({ device: { hostId, deviceId }, start, count, onDevice }: CountingPart, life: Life): void {
    const drive = this.#driveAt(hostId, deviceId);
    const place = this.world.agentOf(hostId)?.devices.find((each) => each.deviceId === deviceId);
    if (place === undefined || drive === undefined || drive.sharedAs !== undefined) return;
    for (let block = start; block < start + count; block++) {
      const number = this.lastAcknowledged(life, block);
      const contents = drive.blocks[place.firstBlock + onDevice + block - start] ?? 0;
      if (!this.#isLater(contents, life, block, number))
        this.world.violation(
          `write ${number} to block ${block} of disk ${life.name} was acknowledged, and ${deviceId}, which counts, has ${contents}`,
        );
    }
  }

  /** Returns whether a block has this write or a later one. */
  #isLater(contents: BlockContents, life: Life, block: number, number: number): boolean {
    const write = this.#writes.get(contents);
    return number === 0 || (write?.life.name === life.name && write.block === block && contents >= number);
  }

  /** True when somebody may have taken acknowledged bytes away: a rewind, or a change of the machines' drives. */
  get #mayBeGone(): boolean {
    return this.world.rewinds.epoch > 0 || this.world.machines().some(({ isTouched }) => isTouched);
  }

  #requireOwn(life: Life, contents: BlockContents): void {
    const write = this.#writes.get(contents);
    // A disk that was forgotten and created again under its id counts as the same disk.
    const isAgain = write?.life.diskId === life.diskId && write.life.epoch !== life.epoch;
    if (write !== undefined && write.life.name !== life.name && !isAgain)
      this.world.violation(
        `write ${write.number} to disk ${write.life.name} was read through disk ${life.name || life.diskId}`,
      );
  }

  submitted(host: string, path: string, block: number, contents: BlockContents): Note | undefined {
    const node = this.world.agentOf(host);
    const place = node?.devices.find(
      (device) => device.path === path && block >= device.firstBlock && block < device.firstBlock + device.blockCount,
    );
    if (place === undefined) {
      this.world.violation(`block ${block} of ${path} on ${host} was written, and no device is there`);
      return undefined;
    }
    const { deviceId } = place;
    const at = block - place.firstBlock;
    const granted = node?.context?.devices.find(deviceId as never)?.granted.at(at * BLOCK_BYTES)?.sessionNumber ?? 0;
    if (contents !== 0) {
      this.#deviceOf.set(contents, deviceId);
      // A move writes what was written in the disk's session, in a session that only its target has.
      const isOwn = this.world.moves.isOwnSession(deviceId, granted);
      return { deviceId, at, session: isOwn ? granted : (this.#writes.get(contents)?.session ?? 0) };
    }
    const replaced = this.#writes.get(node?.machine.openDrive(path)?.blocks[block] ?? 0);
    if (replaced !== undefined) this.world.lives.requireNotForgotten(deviceId, granted, replaced.life);
    return { deviceId, at, session: granted };
  }

  beyondEnd(path: string, { name }: Drive): void {
    this.world.violation(`a write makes ${name} at ${path} grow, which its agent has found to be cut off`);
  }

  /** Requires that only a disk's own users overwrite its data. */
  #requireNobodysElse(
    before: BlockContents,
    write: UserWrite | undefined,
    place: string | undefined,
    note: Note,
  ): void {
    const { store, lives } = this.world;
    const was = this.#writes.get(before);
    if (was === undefined || was.life.name === write?.life.name || !lives.isCurrent(was.life)) return;
    const device = store.device(place ?? this.#deviceOf.get(before) ?? "");
    if (device === undefined || !holds(device, was.diskId)) return;
    if (device.deviceId === note.deviceId && runOver(device, note.at)?.diskId !== was.diskId) return;
    const what = write === undefined ? "an erase" : `a write to disk ${write.life.name}`;
    this.world.violation(`${what} overwrote write ${before} to disk ${was.life.name}, which is still there`);
  }

  /**
   * Returns whether the drive at the device's path is the drive that it was operated with; undefined when it was never
   * in operation.
   */
  isOwnDrive(host: string, deviceId: string): boolean | undefined {
    const own = this.#driveOf.get(deviceId);
    return own && own === this.#driveAt(host, deviceId);
  }

  /** Returns whether the drive at the device's path is the one that another device was operated with. */
  isDriveOf(host: string, deviceId: string, formerId: string): boolean {
    const drive = this.#driveAt(host, deviceId);
    return drive !== undefined && drive === this.#driveOf.get(formerId);
  }

  /** Records that the device is operated with the drive that is at its path now. */
  noteAdopted(host: string, deviceId: string): void {
    const drive = this.#driveAt(host, deviceId);
    if (drive === undefined) return;
    this.#driveOf.set(deviceId, drive);
    const places = this.#deviceAt.get(drive) ?? new Map<number, string>();
    for (const block of places.keys()) places.set(block, deviceId);
  }

  /** Returns whether the drive at the device's path has data of another device with a disk. */
  isOthersDrive(host: string, deviceId: string): boolean {
    const drive = this.#driveAt(host, deviceId);
    return [...this.world.store.devices()].some(
      (other) => holdsAnyDisk(other) && other.deviceId !== deviceId && this.#driveOf.get(other.deviceId) === drive,
    );
  }

  landed({ host, drive, block, contents, note }: BlockWrite, before: BlockContents): void {
    if (note === undefined) return;
    const { deviceId, at, session } = note as Note;
    this.#driveOf.set(deviceId, drive);
    const { store, orders, lives } = this.world;
    const newest = orders.highestGranted.get(`${deviceId} ${at}`) ?? 0;
    if (session < newest)
      this.world.violation(`a write of session ${session} reached ${deviceId} after session ${newest} was granted`);
    const write = this.#writes.get(contents);
    if (write !== undefined) this.#land(write, note as Note);
    // False when the registry was rewound to before the erase was ordered or the disk was created.
    const known = write === undefined ? lives.isErase(deviceId, session) : lives.isKnown(write.life, write.diskId);
    // An erase that a former registry ordered belongs to that registry's history, and is not checked.
    const places = this.#deviceAt.get(drive) ?? new Map<number, string>();
    if (write !== undefined || known) this.#requireNobodysElse(before, write, places.get(block), note as Note);
    this.#deviceAt.set(drive, places.set(block, deviceId));
    const device = store.device(deviceId);
    if (device === undefined || device.hostId !== host || !known) return;
    const run = runOver(device, at);
    const diskId = run?.diskId ?? "";
    if (write === undefined) {
      if (diskId !== "") this.world.violation(`${deviceId} was erased while disk ${diskId} is on it`);
      return;
    }
    const node = this.world.agentOf(host);
    const place = node?.devices.find((each) => each.deviceId === deviceId);
    if (run?.count !== undefined && place !== undefined) {
      const why = whyNotEntered({ drive, firstBlock: place.firstBlock }, at, write.diskId, session);
      if (why !== undefined)
        this.world.violation(`a write to disk ${write.diskId} reached block ${at} of ${deviceId}, and ${why}`);
    }
    // A rewind has undone the move that gave the disk this device.
    if (this.world.moves.isOwnSession(deviceId, session) && write.life.epoch < this.world.rewinds.epoch) return;
    if (diskId !== "" && diskId !== write.diskId)
      this.world.violation(`a write to disk ${write.diskId} reached ${deviceId}, which belongs to disk ${diskId}`);
    // The registry has been rewound to before the disk grew, and does not know yet what the agent remembers.
    if (run === undefined && !this.world.rewinds.isUnheard(host))
      this.world.violation(`a write to disk ${write.diskId} reached ${deviceId}, which is free and clean`);
  }

  #land(write: UserWrite, { deviceId, at }: Note): void {
    write.landed = true;
    // The target of a move gets what the source had a while ago, and a former source what was acknowledged elsewhere.
    const disk = this.world.store.disk(write.diskId);
    if (disk === undefined) return;
    const isThere = ({ device, start, count, onDevice }: CountingPart): boolean =>
      device.deviceId === deviceId &&
      write.block >= start &&
      write.block < start + count &&
      at === onDevice + write.block - start;
    if (![...this.#countingParts(disk)].some(isThere)) return;
    const later = this.#acknowledged.get(`${write.life.name} ${write.block}`) ?? 0;
    if (write.number < later)
      this.world.violation(
        `write ${write.number} to block ${write.block} of disk ${write.diskId} overwrote write ${later}, which was acknowledged`,
      );
  }

  /** Requires that no other process holds a file that two hosts share when this process opens it. */
  opened(process: SimProcess, drive: Drive): void {
    for (const other of drive.openBy)
      if (drive.sharedAs === "file" && other !== process)
        this.world.violation(`${process.name} has opened ${drive.name}, and ${other.name} holds it`);
  }

  /**
   * Requires, when a device becomes ATTACHED, that no other device on the same drive is ATTACHED, and when it becomes
   * ATTACHING, that no other one is ATTACHING or ATTACHED. Considers only devices that the registry can know to be on
   * that drive.
   */
  requireAlone({ hostId, deviceId, attachState }: Device): void {
    if (!this.isShared(hostId, deviceId)) return;
    const known = this.world.store.device(deviceId);
    const asFar = attachState === "ATTACHED" ? ["ATTACHED"] : ["ATTACHED", "ATTACHING"];
    for (const other of this.world.store.devices()) {
      if (other.deviceId === deviceId || !asFar.includes(other.attachState) || other.missing) continue;
      if (!this.isShared(other.hostId, other.deviceId) || !known) continue;
      // An agent whose check of a drive hangs has not reported the drive's identity.
      const [mark, otherMark] = [known, other].map((device) => device.serialNumber || device.fileIdentity);
      if (mark && mark === otherMark)
        this.world.violation(
          `${deviceId} became ${attachState} on the same bytes as ${other.deviceId}, which is ${other.attachState}`,
        );
    }
  }

  /** Returns whether another device that is in operation, or has a disk, lies on the same bytes. */
  isInTheWay(hostId: string, deviceId: string): boolean {
    if (!this.isShared(hostId, deviceId)) return false;
    return [...this.world.store.devices()].some(
      (other) =>
        other.deviceId !== deviceId &&
        this.isShared(other.hostId, other.deviceId) &&
        (holdsAnyDisk(other) || !["UNKNOWN", "DETACHED"].includes(other.attachState)),
    );
  }

  isShared(hostId: string, deviceId: string): boolean {
    return this.#driveAt(hostId, deviceId)?.sharedAs !== undefined;
  }

  #driveAt(host: string, deviceId: string): Drive | undefined {
    const node = this.world.agentOf(host);
    const place = node?.devices.find((device) => device.deviceId === deviceId);
    return place && node?.machine.drives.get(place.path);
  }

  /**
   * Requires that a device that is, or can be, given to a disk holds no data. Not checked when the agent has restarted
   * and the registry cannot know that yet.
   */
  requireClean(device: Device, registeredBootId: string | undefined): void {
    const { hostId, deviceId } = device;
    const node = this.world.agentOf(hostId);
    if (node?.context === undefined || node.context.bootId !== registeredBootId) return;
    if (this.world.rewinds.isUnheard(hostId)) return;
    // An operator who purges a device of an absent host accepts that the host may still write to it.
    if (this.#driveAt(hostId, deviceId)?.sharedAs === "drive") return;
    const isUnclean = (contents: BlockContents, at: number) => contents !== 0 && runOver(device, at) === undefined;
    if (this.#blocksOf(hostId, deviceId)?.some(isUnclean))
      this.world.violation(`${deviceId} counts as clean, and there is something on its drive`);
  }

  /** Requires that a run contains zeros when its agent reports it erased. */
  requireErased(host: string, { deviceId, offsetBytes, sizeBytes }: RunOfDevice): void {
    const first = offsetBytes / BLOCK_BYTES;
    const end = sizeBytes === 0 ? Number.POSITIVE_INFINITY : first + sizeBytes / BLOCK_BYTES;
    if (this.#blocksOf(host, deviceId)?.some((contents, at) => contents !== 0 && at >= first && at < end))
      this.world.violation(`the agent of ${host} says that ${deviceId} is erased, and it is not`);
  }

  /** Returns the device's blocks on the drive that its agent holds; undefined when it holds none. */
  #blocksOf(host: string, deviceId: string): readonly BlockContents[] | undefined {
    const node = this.world.agentOf(host);
    const place = node?.devices.find((device) => device.deviceId === deviceId);
    const drive = place && node?.machine.openDrive(place.path);
    return place && drive?.blocks.slice(place.firstBlock, place.firstBlock + place.blockCount);
  }
}

/** Returns the run that has the block of the device; undefined for none. */
function runOver(device: Device, at: number): Device["runs"][number] | undefined {
  const atBytes = at * BLOCK_BYTES;
  return device.runs.find((run) => {
    const { offsetBytes, sizeBytes } = bytesOf(device, run);
    return atBytes >= offsetBytes && atBytes < offsetBytes + sizeBytes;
  });
}
