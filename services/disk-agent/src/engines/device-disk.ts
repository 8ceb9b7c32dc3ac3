import { readFileSync } from "node:fs";
import { readlink, symlink } from "node:fs/promises";
import { type Logger, messageOf } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { removeFile } from "../base/remove-file.js";
import { repeat } from "../base/repeat.js";
import { KernelRequests } from "../kernel/device-io.js";
import { usersText } from "../kernel/device-users.js";
import { attachLoop, detachLoops, detachStranded, endsWithLastUser, loopsOf } from "../kernel/loop.js";
import { noteLoop, strandedLoops } from "../kernel/loop-list.js";
import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import type { CopiedTarget } from "../mirror/movable-part.js";
import { type IoQueue, queueOfBlockDevice } from "../model/io-queue.js";
import type { ExportSpec } from "../model/memory.js";
import { CleanEnd, describeUsers } from "./clean-end.js";
import type { ServedDisk } from "./engine.js";
import { devicePathIn } from "./export-path.js";
import { emptyLog, imageOf, isMounted, isServed, loopListOf, mountImage, PROGRAM, unmountImage } from "./nbdfuse.js";

/** Interval in ms of the checks whether the process of a block device runs. */
const CHECK_MS = 500;

interface DeviceDiskOptions {
  /** Folder of the exports. */
  readonly folder: string;
  readonly spec: ExportSpec;
  /** Disk on an NBD socket, of which the block device is made. */
  readonly served: ServedDisk;
  /** Makes the block device anew, by `restore`. Called until that has succeeded. */
  readonly repair: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A disk whose path is a link to its block device. */
export class DeviceDisk implements ServedDisk {
  readonly path: string;
  /** nbdfuse asks for the size once. */
  readonly isFixedSize = true;
  readonly #options: DeviceDiskOptions;
  readonly #image: string;
  readonly #loopList: string;
  readonly #ended = new AbortController();
  /** Block device to which the path leads; undefined while it does not work. */
  #device: string | undefined;
  #watching: Promise<void> | undefined;
  readonly #cleanEnd: CleanEnd;
  /** Reason why the block device does not work; undefined while it works. */
  #fault: string | undefined;
  /** Block devices of former mounts that users still have. */
  #stranded: readonly string[] = [];
  #usersProblem: string | undefined;
  readonly #requests = new KernelRequests();

  constructor(options: DeviceDiskOptions) {
    this.#options = options;
    const { folder, spec } = options;
    this.path = devicePathIn(folder, spec.diskId);
    this.#image = imageOf(folder, spec.sessionNumber);
    this.#loopList = loopListOf(folder, spec.sessionNumber);
    this.#cleanEnd = new CleanEnd(spec.diskId, () => this.#liveDevices());
  }

  get problem(): string | undefined {
    return this.#fault ?? this.#usersProblem;
  }

  queue(nowMs: number): IoQueue | undefined {
    const below = this.#options.served.queue(nowMs);
    const device = this.#device;
    const kernel = this.#requests.look(device, nowMs);
    const named = device === undefined || kernel.count === 0 ? device : this.#named(device);
    return queueOfBlockDevice(named ?? "", kernel, below, nowMs);
  }

  /** Names the block device with the process that serves it, which may be stopped. */
  #named(device: string): string {
    try {
      return `${device} (${PROGRAM}, process ${readFileSync(`${this.#image}.pid`, "latin1").trim()})`;
    } catch {
      return device;
    }
  }

  async end(): Promise<void> {
    // The device first, because its end writes what it still has. The disk ends even if the device does not.
    try {
      await this.#remove();
      await removeFile(this.#loopList);
    } finally {
      await this.#options.served.end();
    }
  }

  change(spec: ExportSpec): Promise<void> {
    return this.#options.served.change(spec);
  }

  askMirror(mirrored: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    return this.#options.served.askMirror(mirrored, bytesPerSecond);
  }

  sealMoves(): Promise<readonly CopiedTarget[]> {
    return this.#options.served.sealMoves();
  }

  leave(): Promise<void> {
    this.#ended.abort();
    return this.#options.served.leave();
  }

  async look(): Promise<void> {
    const { folder, spec, served } = this.#options;
    await served.look?.();
    await emptyLog(folder, spec.sessionNumber).catch(() => undefined);
    await this.#lookAtUsers();
  }

  async isReachable(): Promise<boolean> {
    if (!(await this.#options.served.isReachable())) return false;
    const { isLinked, isDraining } = await this.#find();
    return isLinked || isDraining;
  }

  async restore(): Promise<boolean> {
    const { folder, spec, served } = this.#options;
    const isRestored = await served.restore();
    const { working, isLinked, isDraining } = await this.#find();
    this.#watching ??= this.#watch();
    if (isDraining) {
      await removeFile(this.path);
      return isRestored;
    }
    // A device that works keeps its connection, even if a path was removed meanwhile: it may be mounted.
    this.#device = working;
    if (isLinked) {
      this.#fault = undefined;
      return isRestored;
    }
    // A device loses the name of its file when the mount below ends.
    for (const device of await loopsOf(this.#image)) await noteLoop(this.#loopList, device);
    await removeLink(this.path);
    const socket = { path: served.path, readOnly: spec.readOnly ?? false };
    const device = working ?? (await attachLoop(await mountImage(folder, spec.sessionNumber, socket)));
    await noteLoop(this.#loopList, device);
    await symlink(device, this.path);
    this.#device = device;
    this.#fault = undefined;
    await this.#lookAtUsers();
    return true;
  }

  writeBack(): Promise<void> {
    return this.#cleanEnd.writeBack();
  }

  /**
   * Ends the block device if nobody has it open; otherwise it gets no new users by its link, and the kernel ends it with
   * its last user.
   */
  async release(): Promise<void> {
    // A process that has ended lost its writes.
    if ((await this.#liveDevices()).length === 0) return;
    this.#device = undefined;
    // The link first, because another disk may get the number of a device that has ended.
    await removeFile(this.path);
    await detachLoops(this.#image);
    await this.#cleanEnd.requireUnused();
  }

  /** Notices that the process has ended. */
  async #watch(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#ended;
    await repeat({ what: "block device check", everyMs: CHECK_MS, work: () => this.#check(), clock, log, signal });
  }

  async #check(): Promise<void> {
    const { folder, spec, repair, log } = this.#options;
    const { diskId, sessionNumber } = spec;
    if (await isServed(folder, sessionNumber)) {
      const stranded = await strandedLoops(this.#loopList);
      if (stranded.join() !== this.#stranded.join()) await this.#lookAtUsers();
      return;
    }
    if (this.#ended.signal.aborted) return;
    if (this.#fault === undefined) log.error({ diskId, sessionNumber }, `${PROGRAM} of a block device has ended`);
    this.#fault ??= `its block device does not work: the process of ${PROGRAM} has ended`;
    try {
      await repair();
    } catch (error) {
      this.#fault = `its block device cannot be made anew: ${messageOf(error)}`;
    }
  }

  /** Looks for users of block devices that have ended, or are to end. */
  async #lookAtUsers(): Promise<void> {
    this.#stranded = await strandedLoops(this.#loopList);
    for (const device of this.#stranded) if (!(await endsWithLastUser(device))) await detachStranded(device);
    const [dead] = this.#stranded;
    const [draining] = (await this.#find()).isDraining ? await this.#liveDevices() : [];
    if (dead !== undefined)
      this.#usersProblem = `its former block device ${dead}, whose process has ended, fails all I/O and is ${await usersText(dead)}: unmount and close it there, and mount the disk again`;
    else this.#usersProblem = draining && (await describeUsers(draining));
  }

  /** Returns the block devices of a mount that works. */
  async #liveDevices(): Promise<readonly string[]> {
    const { folder, spec } = this.#options;
    return (await isMounted(folder, spec.sessionNumber)) ? loopsOf(this.#image) : [];
  }

  /**
   * Returns the block device of a mount that works, whether the path leads to it, and whether it ends with its last user
   * because of a detach.
   */
  async #find(): Promise<{
    readonly working?: string | undefined;
    readonly isLinked: boolean;
    readonly isDraining: boolean;
  }> {
    const devices = await this.#liveDevices();
    const target = await readlink(this.path).catch(() => undefined);
    const linked = devices.find((device) => device === target);
    const working = linked ?? devices[0];
    const isDraining = working !== undefined && (await endsWithLastUser(working));
    return { working, isLinked: linked !== undefined && !isDraining, isDraining };
  }

  async #remove(): Promise<void> {
    this.#ended.abort();
    this.#device = undefined;
    await removeLink(this.path);
    await unmountImage(this.#options.folder, this.#options.spec.sessionNumber);
  }
}

/** Removes a link, and its block device if that cannot be found by its file, whose mount nbdfuse removed at its end. */
export async function removeLink(path: string): Promise<void> {
  const device = await readlink(path).catch(() => undefined);
  // The link first, because another disk may get the number of a detached device.
  await removeFile(path);
  if (device !== undefined) await detachStranded(device);
}
