import { readlink, symlink } from "node:fs/promises";
import { type DeviceId, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import type { IoCounters } from "../base/io-counters.js";
import { removeFile } from "../base/remove-file.js";
import type { DeviceTable } from "../devices/device-table.js";
import { KernelRequests, readDeviceIo } from "../kernel/device-io.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import { isOfRestarted } from "../kernel/nvme-names.js";
import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import type { CopiedTarget } from "../mirror/movable-part.js";
import { firstExtents, isMoving, placeOf } from "../model/exports.js";
import { type IoQueue, queueOnDevices } from "../model/io-queue.js";
import { type DiskRole, linearTable, type MappedDevice, pathOf, sizeOfTable } from "../model/mapped-devices.js";
import type { ExportDevice, ExportExtent, ExportSpec } from "../model/memory.js";
import { settled } from "../parts/pieces.js";
import { CleanEnd, describeUsers } from "./clean-end.js";
import type { ServedDisk } from "./engine.js";
import { devicePathIn } from "./export-path.js";
import type { KernelMoves } from "./kernel-moves.js";
import type { KernelPart, TakenPart } from "./kernel-part.js";

/** Block device below a disk's device, whose requests are those of one device. */
interface KernelLeg {
  readonly deviceId: DeviceId;
  readonly number: string;
  readonly requests: KernelRequests;
}

interface KernelDiskOptions {
  readonly folder: string;
  readonly mapper: DeviceMapper;
  readonly devices: Pick<DeviceTable, "changes">;
  readonly partsOf: (spec: ExportSpec) => readonly KernelPart[];
  readonly moves: KernelMoves;
  /** Reason why no part of the disk moves while it is served; undefined when they may. */
  readonly whyNoMoves: (spec: ExportSpec) => string | undefined;
  readonly io?: Pick<IoCounters, "follow"> | undefined;
  readonly log: Logger;
}

/** A disk whose path is a link to its device of device-mapper. */
export class KernelDisk implements ServedDisk {
  readonly path: string;
  /** A longer table is a larger disk, also while it is mounted. */
  readonly isFixedSize = false;
  readonly lost: Promise<string>;
  readonly #options: KernelDiskOptions;
  readonly #role: DiskRole;
  readonly #requests = new KernelRequests();
  readonly #left = new AbortController();
  #spec: ExportSpec;
  #noteLost: (reason: string) => void = () => {};
  /** Number of the device; undefined before it is made. */
  #number: string | undefined;
  /** Block devices below the device, by the order of the parts. */
  #legs: readonly KernelLeg[] = [];
  /** Parts as they were taken last. */
  #taken: readonly TakenPart[] = [];
  #unfollow: () => void = () => {};
  /** True when the device ends with its last user. */
  #isDraining = false;
  #isWatched = false;
  /** True once the device is as the spec says: that of a former life may be as an earlier revision said. */
  #isSettled = false;
  #usersProblem: string | undefined;
  readonly #cleanEnd: CleanEnd;
  #ending: Promise<void> | undefined;

  constructor(spec: ExportSpec, role: DiskRole, options: KernelDiskOptions) {
    this.#spec = spec;
    this.#role = role;
    this.#options = options;
    this.path = devicePathIn(options.folder, spec.diskId);
    this.#cleanEnd = new CleanEnd(spec.diskId, () => this.#devices());
    this.lost = new Promise((resolve) => {
      this.#noteLost = resolve;
    });
  }

  get problem(): string | undefined {
    return this.#usersProblem ?? this.#options.moves.problem;
  }

  queue(nowMs: number): IoQueue | undefined {
    if (this.#number === undefined) return undefined;
    const kernel = this.#requests.look(this.#number, nowMs);
    const legs = this.#legs.map(({ deviceId, number, requests }) => ({ deviceId, ...requests.look(number, nowMs) }));
    return queueOnDevices(pathOf(this.#number), kernel, legs, nowMs);
  }

  /**
   * Makes the device, or brings it to the parts of a later revision, and leads the path to it. `known` are bytes that the disk
   * has or moves to: no host is asked for them again.
   */
  async make(spec: ExportSpec, known: ReadonlySet<string> = new Set()): Promise<void> {
    const { mapper, partsOf, moves } = this.#options;
    const parts = partsOf(spec);
    const take = async (part: KernelPart, extent: ExportExtent | undefined): Promise<TakenPart> => {
      const found = extent && known.has(bytesOf(extent, extent.sizeBytes)) ? await part.find() : undefined;
      return found ?? part.take();
    };
    // Waits for all, so that none is made after the end of a disk that cannot be served.
    const taken = await settled(parts.map((part, index) => take(part, spec.extents[index])));
    await this.#requireSameMachines(parts, taken);
    this.#isSettled = false;
    const placed = await moves.follow(spec, taken);
    const table = linearTable(placed.map(({ segment }) => segment));
    const former = { parts: partsOf(this.#spec), taken: this.#taken };
    this.#noteTaken(parts, taken);
    const number = await mapper.ensure({ role: this.#role, table, isReadOnly: spec.readOnly ?? false });
    this.#note(spec, number);
    await moves.settle(number);
    this.#isSettled = true;
    await this.#link();
    const used = new Set([undefined, ...taken.map(({ nqn }) => nqn)]);
    for (const [index, part] of former.parts.entries()) if (!used.has(former.taken[index]?.nqn)) await part.leave?.();
  }

  /**
   * Ends the disk when another host's machine has restarted: its drives have lost what was not flushed, and a later flush
   * would not tell the users of the device. Throws UnavailableError then.
   */
  async #requireSameMachines(parts: readonly KernelPart[], taken: readonly TakenPart[]): Promise<void> {
    const former = this.#taken.map(({ nqn }) => nqn);
    const restarted = taken.findIndex(({ nqn }) => isOfRestarted(former, nqn));
    if (restarted === -1 || (await this.#present()) === undefined) return;
    const reason = `the machine of device ${parts[restarted]?.deviceId} restarted, so acknowledged writes that were not flushed may be lost`;
    await this.#end();
    this.#noteLost(reason);
    throw new UnavailableError(reason);
  }

  #noteTaken(parts: readonly KernelPart[], taken: readonly TakenPart[]): void {
    this.#taken = taken;
    this.#legs = legsOf(parts, taken);
  }

  /**
   * Takes over the device if it lies on the legs of the session, perhaps with the size of an earlier revision. Returns
   * false otherwise.
   */
  async adopt(spec: ExportSpec, found: MappedDevice): Promise<boolean> {
    const extents = firstExtents(spec.extents, sizeOfTable(found.table));
    if (extents === undefined) return false;
    const had = { ...spec, extents };
    const parts = this.#options.partsOf(had);
    if (refusalOf(parts) !== undefined) return false;
    const taken = (await Promise.all(parts.map((part) => part.find()))).filter((each) => each !== undefined);
    const placed = await this.#options.moves.adopt(had, found, taken);
    if (placed === undefined || found.table !== linearTable(placed.map(({ segment }) => segment))) return false;
    this.#noteTaken(parts, taken);
    for (const part of parts) part.noteTaken();
    this.#note(had, found.number);
    await this.#link();
    return true;
  }

  #note(spec: ExportSpec, number: string): void {
    const { io } = this.#options;
    this.#spec = spec;
    if (this.#number !== number) {
      this.#unfollow();
      this.#unfollow = io?.follow(spec.diskId, () => readDeviceIo(number)) ?? (() => {});
    }
    this.#number = number;
    if (!this.#isWatched) void this.#watch();
    this.#isWatched = true;
  }

  whyNotChange(spec: ExportSpec): string | undefined {
    const { diskId, limits } = spec;
    const whyNoMoves = isMoving(spec) ? this.#options.whyNoMoves(spec) : undefined;
    if (whyNoMoves !== undefined)
      return `engine kernel cannot move disk ${diskId} while it serves the disk: ${whyNoMoves}: unpublish the disk`;
    if (limits === undefined) return undefined;
    return `engine kernel cannot limit the I/O of disk ${diskId} while it serves the disk: unpublish the disk and publish it again, and the engine node carries it`;
  }

  async change(spec: ExportSpec): Promise<void> {
    const former = layoutOf(this.#spec);
    const isSame = layoutOf(spec).join() === former.join();
    if (!this.#isSettled || !isSame) await this.make(spec, new Set(former));
    this.#spec = spec;
  }

  askMirror(mirrored: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    return this.#options.moves.ask(mirrored, bytesPerSecond);
  }

  async sealMoves(): Promise<readonly CopiedTarget[]> {
    return (await this.#present()) === undefined ? this.#options.moves.seal() : [];
  }

  async look(): Promise<void> {
    const [device] = this.#isDraining ? await this.#devices() : [];
    this.#usersProblem = device === undefined ? await this.#problemOfParts() : await describeUsers(device);
  }

  async #problemOfParts(): Promise<string | undefined> {
    const parts = this.#options.partsOf(this.#spec);
    return (await Promise.all(parts.map((part) => part.problem()))).find((problem) => problem !== undefined);
  }

  /** Returns whether the device lies on block devices that the kernel still has. */
  async #isWhole(): Promise<boolean> {
    if ((await this.#problemOfParts()) !== undefined) return false;
    const remote = this.#options.partsOf(this.#spec).filter((_, at) => this.#taken[at]?.nqn !== undefined);
    const found = await Promise.all(remote.map((part) => part.find()));
    const numbers = this.#taken.filter(({ nqn }) => nqn !== undefined).map(({ segment }) => segment.on);
    return numbers.every((number, at) => found[at]?.segment.on === number);
  }

  /** Returns the number of the device while the kernel has it. */
  async #present(): Promise<string | undefined> {
    const number = this.#number;
    return number !== undefined && (await this.#options.mapper.isAt(this.#role, number)) ? number : undefined;
  }

  /** Returns the path of the device while the kernel has it. */
  async #devices(): Promise<readonly string[]> {
    const number = await this.#present();
    return number === undefined ? [] : [pathOf(number)];
  }

  async isReachable(): Promise<boolean> {
    const number = await this.#present();
    if (number === undefined || this.#isDraining) return number !== undefined;
    if (!(await this.#isWhole())) return false;
    return (await readlink(this.path).catch(() => "")) === pathOf(number);
  }

  async restore(): Promise<boolean> {
    if (this.#ending !== undefined || (await this.isReachable())) return false;
    this.#isDraining = false;
    if ((await this.#present()) === undefined || !(await this.#isWhole())) await this.make(this.#spec);
    else await this.#link();
    return true;
  }

  async #link(): Promise<void> {
    if (this.#number === undefined || this.#isDraining) return;
    const target = pathOf(this.#number);
    if ((await readlink(this.path).catch(() => "")) === target) return;
    await removeFile(this.path);
    await symlink(target, this.path);
  }

  writeBack(): Promise<void> {
    return this.#cleanEnd.writeBack();
  }

  /**
   * Removes the block device if nobody has it open; otherwise it gets no new users by its link, and the kernel removes it
   * with its last user.
   */
  async release(): Promise<void> {
    const { mapper } = this.#options;
    if ((await this.#present()) === undefined) return;
    await removeFile(this.path);
    await mapper.remove(this.#role, { isDeferred: true });
    this.#isDraining = true;
    await this.#cleanEnd.requireUnused();
  }

  async end(): Promise<void> {
    this.#left.abort();
    await this.#end();
  }

  async leave(): Promise<void> {
    this.#left.abort();
    this.#unfollow();
    await this.#options.moves.leave();
  }

  #end(): Promise<void> {
    this.#ending ??= this.#endNow();
    return this.#ending;
  }

  async #endNow(): Promise<void> {
    const { mapper, partsOf, moves, log } = this.#options;
    this.#unfollow();
    // The link first, because another disk may get the number of a device that has ended.
    await removeFile(this.path);
    // The fence is the wipe of the legs. The disk's own table may wait for more than one drive.
    await Promise.all(partsOf(this.#spec).map((part) => part.end()));
    await moves
      .cut()
      // Requests that a part holds would hold the disk's.
      .then((kept) => mapper.cut(this.#role, { isReadOnly: this.#spec.readOnly ?? false, kept }))
      .catch((error: unknown) => log.error({ ...this.#role, error: messageOf(error) }, "disk not taken off its legs"));
    // A device that is still mounted fails all I/O, and goes with its last user.
    await mapper.remove(this.#role, { isDeferred: true });
    await moves.remove();
  }

  /** Ends the disk as soon as a device refuses its session, whose leg is wiped for the same reason. */
  async #watch(): Promise<void> {
    const { devices, partsOf } = this.#options;
    const { signal } = this.#left;
    using watch = devices.changes.watch(undefined);
    while (!signal.aborted) {
      const reason = refusalOf(partsOf(this.#spec));
      if (reason !== undefined) {
        await this.#end();
        if (!signal.aborted) this.#noteLost(reason);
        return;
      }
      await watch.changed(signal).catch(() => undefined);
    }
  }
}

function legsOf(parts: readonly KernelPart[], taken: readonly TakenPart[]): readonly KernelLeg[] {
  const legs = new Map(taken.map(({ segment }, at) => [segment.on, parts[at]?.deviceId]));
  return [...legs].flatMap(([number, deviceId]) =>
    deviceId ? [{ deviceId, number, requests: new KernelRequests() }] : [],
  );
}

/** Returns the bytes on which the disk's table depends: its own, and those to which they move. */
function layoutOf({ extents }: ExportSpec): readonly string[] {
  return extents.flatMap(({ target, ...extent }) => [
    bytesOf(extent, extent.sizeBytes),
    target === undefined ? "" : bytesOf(target, extent.sizeBytes),
  ]);
}

function bytesOf(device: ExportDevice, sizeBytes: number): string {
  return `${placeOf(device)} ${sizeBytes} ${device.sessionNumber}`;
}

function refusalOf(parts: readonly KernelPart[]): string | undefined {
  for (const part of parts) {
    const refusal = part.refusal();
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}
