import type { Device } from "@diskmesh/disk-registry/simulation";
import type { BlockContents, Drive } from "./drive.js";
import type { BlockWrite, MachineWatch } from "./machine.js";
import type { Life, UserWrite, World } from "./parts.js";
import type { SimProcess } from "./timeline.js";

interface Note {
  readonly deviceId: string;
  /** In which the write was submitted. */
  readonly session: number;
}

/** Watches every block that reaches a drive: in a session that no newer one has replaced, and for the device's owner. */
export class ByteWatch implements MachineWatch {
  readonly #writes = new Map<number, UserWrite>();
  /** The newest acknowledged write, by disk and block. */
  readonly #acknowledged = new Map<string, number>();
  /** The device that a write was for, by the number of the write. */
  readonly #deviceOf = new Map<number, string>();
  /** The drive behind a device, by device, once something was written there. */
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
  }

  /** A user of a disk was given this when it read a block. */
  requireOwn(life: Life, diskId: string, contents: BlockContents): void {
    const write = this.#writes.get(contents);
    // A disk that was forgotten and made again under its id is the same to those who use it.
    const isAgain = write?.life.diskId === life.diskId && write.life.epoch !== life.epoch;
    if (write !== undefined && write.life.name !== life.name && !isAgain)
      this.world.violation(
        `write ${write.number} to disk ${write.life.name} was read through disk ${life.name || diskId}`,
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
    if (contents !== 0) {
      this.#deviceOf.set(contents, deviceId);
      return { deviceId, session: this.#writes.get(contents)?.session ?? 0 };
    }
    const session = node?.context?.devices.find(deviceId as never)?.grantedSession ?? 0;
    const replaced = this.#writes.get(node?.machine.openDrive(path)?.blocks[block] ?? 0);
    if (replaced !== undefined) this.world.lives.requireNotForgotten(deviceId, session, replaced.life);
    return { deviceId, session };
  }

  beyondEnd(path: string, { name }: Drive): void {
    this.world.violation(`a write makes ${name} at ${path} grow, which its agent has found to be cut off`);
  }

  /** A block was overwritten: what a disk has on its device is overwritten by its own users alone. */
  #requireNobodysElse(before: BlockContents, write: UserWrite | undefined): void {
    const { store, lives } = this.world;
    const was = this.#writes.get(before);
    if (was === undefined || was.life.name === write?.life.name || !lives.isCurrent(was.life)) return;
    if (store.device(this.#deviceOf.get(before) ?? "")?.diskId !== was.diskId) return;
    const what = write === undefined ? "an erase" : `a write to disk ${write.life.name}`;
    this.world.violation(`${what} overwrote write ${before} to disk ${was.life.name}, which is still there`);
  }

  /**
   * Returns true when the drive at the device's path is the one it was in operation with; undefined when it never was.
   */
  isOwnDrive(host: string, deviceId: string): boolean | undefined {
    const own = this.#driveOf.get(deviceId);
    return own && own === this.#driveAt(host, deviceId);
  }

  /** Returns true when the drive at the device's path has the bytes of another device with a disk. */
  isOthersDrive(host: string, deviceId: string): boolean {
    const drive = this.#driveAt(host, deviceId);
    return [...this.world.store.devices()].some(
      (other) => other.diskId !== "" && other.deviceId !== deviceId && this.#driveOf.get(other.deviceId) === drive,
    );
  }

  landed({ host, drive, contents, note }: BlockWrite, before: BlockContents): void {
    if (note === undefined) return;
    const { deviceId, session } = note as Note;
    this.#driveOf.set(deviceId, drive);
    const { store, orders, lives } = this.world;
    const newest = orders.highestGranted.get(deviceId) ?? 0;
    if (session < newest)
      this.world.violation(`a write of session ${session} reached ${deviceId} after session ${newest} was granted`);
    const write = this.#writes.get(contents);
    if (write !== undefined) this.#land(write);
    // A registry that was restored has forgotten what it had begun after its backup.
    const known = write === undefined ? lives.isErase(deviceId, session) : lives.isKnown(write.life, write.diskId);
    // An erase that a former registry ordered, which runs on, follows that one's history.
    if (write !== undefined || known) this.#requireNobodysElse(before, write);
    const device = store.device(deviceId);
    if (device === undefined || device.hostId !== host || !known) return;
    if (write === undefined) {
      if (device.diskId !== "") this.world.violation(`${deviceId} was erased while disk ${device.diskId} is on it`);
      return;
    }
    if (device.diskId !== "" && device.diskId !== write.diskId)
      this.world.violation(
        `a write to disk ${write.diskId} reached ${deviceId}, which belongs to disk ${device.diskId}`,
      );
    if (device.diskId === "" && !device.dirty)
      this.world.violation(`a write to disk ${write.diskId} reached ${deviceId}, which is free and clean`);
  }

  #land(write: UserWrite): void {
    write.landed = true;
    const later = this.#acknowledged.get(`${write.life.name} ${write.block}`) ?? 0;
    if (write.number < later)
      this.world.violation(
        `write ${write.number} to block ${write.block} of disk ${write.diskId} overwrote write ${later}, which was acknowledged`,
      );
  }

  /** Whatever an agent of another host does not let go of is not to be used by this one. */
  opened(process: SimProcess, drive: Drive): void {
    for (const other of drive.openBy)
      if (drive.sharedAs === "file" && other !== process)
        this.world.violation(`${process.name} has opened ${drive.name}, and ${other.name} holds it`);
  }

  /** A device became ATTACHING or ATTACHED: nobody who is known to be on the same drive is as far already. */
  requireAlone({ hostId, deviceId, attachState }: Device): void {
    if (!this.isShared(hostId, deviceId)) return;
    const known = this.world.store.device(deviceId);
    const asFar = attachState === "ATTACHED" ? ["ATTACHED"] : ["ATTACHED", "ATTACHING"];
    for (const other of this.world.store.devices()) {
      if (other.deviceId === deviceId || !asFar.includes(other.attachState) || other.missing) continue;
      if (!this.isShared(other.hostId, other.deviceId) || !known) continue;
      // An agent whose look at a drive hung has told nothing of it yet.
      const [mark, otherMark] = [known, other].map((device) => device.serialNumber || device.fileIdentity);
      if (mark && mark === otherMark)
        this.world.violation(
          `${deviceId} became ${attachState} on the same bytes as ${other.deviceId}, which is ${other.attachState}`,
        );
    }
  }

  /** Returns true when another device in operation, or with a disk on it, lies on the same bytes. */
  isInTheWay(hostId: string, deviceId: string): boolean {
    if (!this.isShared(hostId, deviceId)) return false;
    return [...this.world.store.devices()].some(
      (other) =>
        other.deviceId !== deviceId &&
        this.isShared(other.hostId, other.deviceId) &&
        (other.diskId !== "" || !["UNKNOWN", "DETACHED"].includes(other.attachState)),
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
   * The device may be given to a disk, or is being given. The drive that its agent holds has nothing of anybody on it,
   * unless the agent has started again and the registry cannot know that yet.
   */
  requireClean({ hostId, deviceId }: Device, registeredBootId: string | undefined): void {
    const node = this.world.agentOf(hostId);
    if (node?.context === undefined || node.context.bootId !== registeredBootId) return;
    if (this.world.rewinds.isUnheard(hostId)) return;
    // An operator who forces a device out of the registry while its host is away knows that the host may still write to
    // it.
    if (this.#driveAt(hostId, deviceId)?.sharedAs === "drive") return;
    if (this.#blocksOf(hostId, deviceId)?.some((contents) => contents !== 0))
      this.world.violation(`${deviceId} counts as clean, and there is something on its drive`);
  }

  /** An agent says that a device is erased. */
  requireErased(host: string, deviceId: string): void {
    if (this.#blocksOf(host, deviceId)?.some((contents) => contents !== 0))
      this.world.violation(`the agent of ${host} says that ${deviceId} is erased, and it is not`);
  }

  /** Returns the blocks of the device on the drive that its agent holds; undefined when it holds none. */
  #blocksOf(host: string, deviceId: string): readonly BlockContents[] | undefined {
    const node = this.world.agentOf(host);
    const place = node?.devices.find((device) => device.deviceId === deviceId);
    const drive = place && node?.machine.openDrive(place.path);
    return place && drive?.blocks.slice(place.firstBlock, place.firstBlock + place.blockCount);
  }
}
