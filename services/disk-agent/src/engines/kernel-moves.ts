import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { type Logger, messageOf } from "@diskmesh/domain";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import type { CopiedTarget } from "../mirror/movable-part.js";
import { isSameDevice, placeOf } from "../model/exports.js";
import {
  type DiskRole,
  linearTable,
  type MappedDevice,
  type PartRole,
  pathOf,
  SECTOR_BYTES,
  type Segment,
} from "../model/mapped-devices.js";
import type { ExportDevice, ExportExtent, ExportSpec } from "../model/memory.js";
import { isWhole, type MovingBytes, movingBytesOf } from "../model/moving-bytes.js";
import { KernelMove, type KernelMoveLimits } from "./kernel-move.js";
import type { KernelPart, TakenPart } from "./kernel-part.js";

export interface KernelMovesOptions {
  readonly mapper: DeviceMapper;
  readonly role: DiskRole;
  /** Returns a number for a new device of the disk's session. */
  readonly nextMaking: () => Promise<number>;
  readonly partOf: (device: ExportDevice, spec: ExportSpec) => KernelPart;
  readonly limits: KernelMoveLimits;
  readonly log: Logger;
}

/** A part that moves, or whose move could not begin. */
interface Moving {
  readonly extent: ExportExtent;
  readonly target: KernelPart;
  /** Absent when the target could not be taken. */
  readonly move?: KernelMove;
  readonly failure?: string;
}

/** Device of a part whose move has ended, which lies on the part's present bytes once these are known. */
interface Ended {
  readonly role: PartRole;
  readonly number: string;
}

/** The moves of a disk that the kernel carries. Each has a device below the disk's. */
export class KernelMoves {
  readonly #options: KernelMovesOptions;
  /** Moves by the place of their source. */
  readonly #all = new Map<string, Moving>();
  /** Devices on which no disk is to lie any more. */
  #ended: Ended[] = [];
  /** Devices of a former life by the place of the extent that lies on them, whose moves have ended meanwhile. */
  readonly #left = new Map<string, Ended>();
  /** True once users of the disk may have written. */
  #isUsed = false;

  constructor(options: KernelMovesOptions) {
    this.#options = options;
  }

  /** Devices on which the disk may lie. */
  get #devices(): readonly Ended[] {
    return [...this.#moves, ...this.#ended, ...this.#left.values()];
  }

  get #moves(): readonly KernelMove[] {
    return [...this.#all.values()].flatMap(({ move }) => move ?? []);
  }

  /** Reason why requests of the disk wait; undefined while none do. */
  get problem(): string | undefined {
    return this.#moves.find(({ problem }) => problem !== undefined)?.problem;
  }

  /**
   * Brings the moves to an order, and returns the parts on which the disk is to lie then. `taken` are the parts that count.
   * The devices of moves that have ended are on these, so that the disk may lie on them until `settle`.
   */
  async follow(spec: ExportSpec, taken: readonly TakenPart[]): Promise<readonly TakenPart[]> {
    for (const [place, moving] of this.#all)
      if (!spec.extents.some((extent) => isSameMove(moving.extent, extent))) await this.#end(place, moving, spec);
    const placed: TakenPart[] = [];
    for (const [index, extent] of spec.extents.entries()) {
      const own = taken[index];
      if (own === undefined) throw new Error("an extent without a part");
      await this.#endLeft(placeOf(extent), own.segment);
      const { target } = extent;
      const { move } = target === undefined ? {} : await this.#begun(extent, target, spec, own);
      move?.setRate(target?.bytesPerSecond ?? 0);
      placed.push(move === undefined ? own : { ...own, segment: move.segment });
    }
    return placed;
  }

  /** Begins to copy, and removes what the disk has left. The disk lies on the parts that `follow` has returned. */
  async settle(diskNumber: string): Promise<void> {
    const { mapper, log } = this.#options;
    this.#isUsed = true;
    for (const { role } of this.#ended.splice(0))
      await mapper
        .remove(role, { isDeferred: true })
        .catch((error: unknown) => log.warn({ ...role, error: messageOf(error) }, "part left"));
    if (this.#moves.length === 0) return;
    // Each copy may keep other bytes of a discarded range. The limit ends with the disk's table.
    await writeFile(`/sys/block/${basename(pathOf(diskNumber))}/queue/discard_max_bytes`, "0").catch((error: unknown) =>
      log.warn({ ...this.#options.role, error: messageOf(error) }, "discards not refused during a move"),
    );
    for (const move of this.#moves) move.start();
  }

  /**
   * Takes over the devices of a former life. Returns the parts on which the disk's table lies, if it lies on the session's;
   * undefined otherwise. `own` are the parts that count, by the order of the extents.
   */
  async adopt(
    spec: ExportSpec,
    { table }: MappedDevice,
    own: readonly TakenPart[],
  ): Promise<readonly TakenPart[] | undefined> {
    const { mapper, role } = this.#options;
    this.#isUsed = true;
    const found = (await mapper.list()).flatMap((device) =>
      device.role.kind === "part" && isOfDisk(device.role, role) ? [{ ...device, role: device.role }] : [],
    );
    const placed: TakenPart[] = [];
    let startBytes = 0;
    for (const [index, extent] of spec.extents.entries()) {
      const range = `${startBytes / SECTOR_BYTES} ${extent.sizeBytes / SECTOR_BYTES}`;
      startBytes += extent.sizeBytes;
      const below = found.find(({ number }) => table.split("\n").includes(`${range} linear ${number} 0`));
      const part = own[index];
      if (part === undefined) return undefined;
      if (below !== undefined && !(await this.#adoptOne(spec, extent, below, part.segment))) return undefined;
      const segment = { on: below?.number ?? "", offsetBytes: 0, sizeBytes: extent.sizeBytes };
      placed.push(below === undefined ? part : { ...part, segment });
    }
    const used = new Set(this.#devices.map(({ number }) => number));
    this.#ended.push(...found.filter(({ number }) => !used.has(number)));
    return placed;
  }

  /** Returns whether the device of a part lies on the bytes that count. */
  async #adoptOne(
    spec: ExportSpec,
    extent: ExportExtent,
    { role, number, table }: MappedDevice & { readonly role: PartRole },
    own: Segment,
  ): Promise<boolean> {
    const { partOf } = this.#options;
    const moving = movingBytesOf(table);
    if (moving === undefined) {
      if (table !== linearTable([own])) return false;
      this.#left.set(placeOf(extent), { role, number });
      return true;
    }
    const { bytes, stage } = moving;
    if (!isSameSegment(bytes.source, own) && !isSameSegment(bytes.target, own)) return false;
    const target = extent.target && partOf({ ...extent.target, sizeBytes: extent.sizeBytes }, spec);
    const there = await target?.find();
    const isOther = there !== undefined && !isSameSegment(bytes.target, there.segment);
    if (target === undefined || isOther || !isSameSegment(bytes.source, own)) {
      this.#left.set(placeOf(extent), { role, number });
      return true;
    }
    target.noteTaken();
    const move = this.#move(role, extent, target, bytes);
    move.adopt(number, stage);
    if (there === undefined && !isWhole(bytes, stage)) move.fail("target", "its device of device-mapper is gone");
    this.#all.set(placeOf(extent), { extent, target, move });
    return true;
  }

  /** Returns how far the move of a part is; undefined when it does not move there. */
  ask({ source, target }: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    const moving = this.#all.get(placeOf(source));
    if (moving?.extent.target === undefined || placeOf(moving.extent.target) !== placeOf(target)) return undefined;
    const { move, failure = "" } = moving;
    move?.setRate(bytesPerSecond);
    return move?.ask() ?? { answer: { is: "failed", at: "target", message: failure }, copiedBytes: 0 };
  }

  /** Ends the moves of a disk whose device is gone. Returns the targets with the bytes that both copies have alike, durably. */
  async seal(): Promise<readonly CopiedTarget[]> {
    const sealed = [...this.#all.values()].map(async ({ extent: { target }, move }) => {
      const copiedBytes = (await move?.seal().catch(() => 0)) ?? 0;
      return target !== undefined && copiedBytes > 0 ? [{ ...target, copiedBytes }] : [];
    });
    return (await Promise.all(sealed)).flat();
  }

  /** Ends the agent's part. What the kernel copies goes on. */
  async leave(): Promise<void> {
    await Promise.all(this.#moves.map((move) => move.leave()));
  }

  /**
   * Ends the moves with their disk, whose legs were wiped. What the kernel holds fails: a registry may have decided for
   * either copy. Returns the numbers of the devices on which the disk stays.
   */
  async cut(): Promise<readonly string[]> {
    const { mapper, log } = this.#options;
    await this.leave();
    await Promise.all([...this.#all.values()].map(({ target }) => target.end()));
    for (const { role } of this.#devices) {
      const failure = await mapper.cut(role);
      if (failure !== undefined) log.error({ ...role, reason: failure }, "drives not flushed at the end of a disk");
    }
    return this.#devices.map(({ number }) => number);
  }

  /** Removes the devices, with the last user of their disk. */
  async remove(): Promise<void> {
    for (const { role } of this.#devices) await this.#options.mapper.remove(role, { isDeferred: true });
  }

  async #begun(extent: ExportExtent, device: ExportDevice, spec: ExportSpec, own: TakenPart): Promise<Moving> {
    const place = placeOf(extent);
    const known = this.#all.get(place);
    if (known !== undefined) return known;
    const { nextMaking, partOf, role } = this.#options;
    const target = partOf({ ...device, sizeBytes: extent.sizeBytes }, spec);
    const begun = { extent, target };
    const moving = await target.take().then(
      async ({ segment }): Promise<Moving> => {
        const partRole = { ...role, kind: "part" as const, making: await nextMaking() };
        const move = this.#move(partRole, extent, target, { source: own.segment, target: segment });
        await move.make(this.#isUsed ? 0 : (extent.target?.copiedBytes ?? 0));
        return { ...begun, move };
      },
      // The loss of a target ends the move and not the disk.
      (error: unknown): Moving => ({ ...begun, failure: messageOf(error) }),
    );
    this.#all.set(place, moving);
    return moving;
  }

  #move(role: PartRole, extent: ExportExtent, target: KernelPart, bytes: MovingBytes): KernelMove {
    const { mapper, limits, log } = this.#options;
    const { deviceId } = extent;
    const about = { diskId: role.diskId, deviceId, targetId: target.deviceId };
    return new KernelMove({ mapper, role, bytes, about, refusal: () => target.refusal(), limits, log });
  }

  /** Ends a move that an order no longer has: with its target, if that is the order's. */
  async #end(place: string, { extent, target, move }: Moving, spec: ExportSpec): Promise<void> {
    const isMoved = spec.extents.some((each) => extent.target !== undefined && isSameDevice(each, extent.target));
    await move?.decide(isMoved ? "target" : "source");
    if (move !== undefined) this.#ended.push(move);
    this.#all.delete(place);
    if (!isMoved) await target.leave?.();
  }

  /** Puts the device of a former life on the bytes that count, on which its disk lies afterwards. */
  async #endLeft(place: string, own: Segment): Promise<void> {
    const left = this.#left.get(place);
    if (left === undefined) return;
    await this.#options.mapper.ensure({ role: left.role, table: linearTable([own]) });
    this.#left.delete(place);
    this.#ended.push(left);
  }
}

function isOfDisk(part: PartRole, { diskId, sessionNumber }: DiskRole): boolean {
  return part.diskId === diskId && part.sessionNumber === sessionNumber;
}

function isSameSegment(one: Segment, other: Segment): boolean {
  return one.on === other.on && one.offsetBytes === other.offsetBytes;
}

/** Returns whether the same part moves to the same device. */
function isSameMove(one: ExportExtent, other: ExportExtent): boolean {
  return (
    isSameDevice(one, other) &&
    one.sizeBytes === other.sizeBytes &&
    one.target !== undefined &&
    isSameDevice(one.target, other.target)
  );
}
