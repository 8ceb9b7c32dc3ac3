import { access, constants, readdir, readlink, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { type HostId, InvalidStateError, type Logger } from "@diskmesh/domain";
import type { ServedDisk } from "../exports/engine.js";
import { devicePathIn, isDeviceLink } from "../exports/export-path.js";
import type { ExportSpec } from "../model/memory.js";
import type { IoCounters } from "../nbd/io-counters.js";
import { removeFile } from "../remove-file.js";
import { readDeviceIo } from "./device-io.js";
import { attachLoop, detachStranded, loopsOf } from "./loop.js";
import { emptyLog, imageOf, isMounted, mountImage, PROGRAM, sessionOfImage, unmountImage } from "./nbdfuse.js";

interface BlockDevicesOptions {
  readonly hostId: HostId;
  /** Folder of the exports. */
  readonly folder: string;
  /** Reason why the host cannot make block devices; undefined when it can. */
  readonly whyNot: string | undefined;
  /** Ends block devices of a folder whose session is not to be kept. Returns their sessions. */
  readonly endDevices?: EndBlockDevices;
  /** Counters of the disks' I/O. */
  readonly io?: Pick<IoCounters, "follow"> | undefined;
  readonly log: Logger;
}

export type EndBlockDevices = (folder: string, isKept: (sessionNumber: number) => boolean) => Promise<number[]>;

/** Makes block devices of disks that an engine serves on NBD sockets: a file by FUSE, and a loop device of the file. */
export class BlockDevices {
  readonly #options: BlockDevicesOptions;

  constructor(options: BlockDevicesOptions) {
    this.#options = options;
  }

  /**
   * Decides the form of an export. Throws InvalidStateError when it must be a block device and the host cannot make
   * one. Where the disk leaves it open, a disk that outlives the agent becomes a device.
   */
  isDevice({ diskId, exportKind }: ExportSpec, outlivesAgent: boolean): boolean {
    const { whyNot, hostId } = this.#options;
    if (exportKind === "DEVICE" && whyNot !== undefined)
      throw new InvalidStateError(
        `disk ${diskId} is to be a block device, which host ${hostId} cannot make: ${whyNot}. Or let the disk type say "export: nbd"`,
        { about: { disk_id: diskId } },
      );
    return exportKind === "DEVICE" || (exportKind === undefined && outlivesAgent && whyNot === undefined);
  }

  /**
   * Returns the served disk as a block device, which is made now, or was made by a former life of the agent. Counts its
   * I/O unless the engine does.
   */
  async of(spec: ExportSpec, served: ServedDisk): Promise<ServedDisk> {
    const { folder, io } = this.#options;
    const disk = new DeviceDisk(folder, spec, served, served.isCounted ? undefined : io);
    try {
      await disk.restore();
      return disk;
    } catch (error) {
      await disk.end();
      throw error;
    }
  }

  /** Ends what former lives of the agent left of sessions that are not served. */
  async endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    const { folder, endDevices = endBlockDevices, log } = this.#options;
    const sessions = await endDevices(folder, isServed);
    if (sessions.length > 0) log.info({ sessions }, "block devices of ended sessions removed");
  }
}

export const endBlockDevices: EndBlockDevices = async (folder, isKept) => {
  const names = await readdir(folder);
  const numbers = names.map(sessionOfImage).filter((number) => number !== undefined);
  const ended = numbers.filter((number) => !isKept(number));
  // Links first, because another disk may get the number of a detached loop device.
  await removeLinks(folder, names, numbers.filter(isKept));
  for (const sessionNumber of ended) await unmountImage(folder, sessionNumber);
  return ended;
};

/** Removes the links that do not lead to a block device of these sessions. */
async function removeLinks(folder: string, names: readonly string[], sessionNumbers: readonly number[]): Promise<void> {
  const kept = await Promise.all(sessionNumbers.map((number) => loopsOf(imageOf(folder, number))));
  for (const name of names.filter(isDeviceLink)) {
    const target = await readlink(join(folder, name)).catch(() => "");
    if (!kept.flat().includes(target)) await removeLink(join(folder, name));
  }
}

/** Removes a link, and its block device if that cannot be found by its file, whose mount nbdfuse removed at its end. */
async function removeLink(path: string): Promise<void> {
  const device = await readlink(path).catch(() => undefined);
  // The link first, because another disk may get the number of a detached device.
  await removeFile(path);
  if (device !== undefined) await detachStranded(device);
}

/** A disk whose path is a link to its block device. */
class DeviceDisk implements ServedDisk {
  readonly path: string;
  /** nbdfuse asks for the size once. */
  readonly isFixedSize = true;
  readonly isCounted = true;
  readonly lost?: Promise<string>;
  readonly askMirror?: NonNullable<ServedDisk["askMirror"]>;
  #followed: { readonly device: string; readonly stop: () => void } | undefined;

  constructor(
    readonly folder: string,
    readonly spec: ExportSpec,
    readonly served: ServedDisk,
    readonly io: Pick<IoCounters, "follow"> | undefined,
  ) {
    this.path = devicePathIn(folder, spec.diskId);
    if (served.askMirror !== undefined) this.askMirror = served.askMirror.bind(served);
    if (served.lost !== undefined) this.lost = served.lost.finally(() => this.#remove());
  }

  async end(): Promise<void> {
    // The device first, because its end writes what it still has. The disk ends even if the device does not.
    try {
      await this.#remove();
    } finally {
      await this.served.end();
    }
  }

  async change(spec: ExportSpec): Promise<void> {
    await this.served.change?.(spec);
  }

  leave(): Promise<void> {
    this.#unfollow();
    return this.served.leave();
  }

  async look(): Promise<void> {
    await this.served.look?.();
    await emptyLog(this.folder, this.spec.sessionNumber).catch(() => undefined);
  }

  async isReachable(): Promise<boolean> {
    return (await this.served.isReachable()) && (await this.#find()).isLinked;
  }

  async restore(): Promise<boolean> {
    const isRestored = await this.served.restore();
    const { folder, spec } = this;
    // A device that works keeps its connection, even if a path was removed meanwhile: it may be mounted.
    const { working, isLinked } = await this.#find();
    if (working === undefined) this.#unfollow();
    else this.#follow(working);
    if (isLinked) return isRestored;
    await removeLink(this.path);
    const socket = { path: this.served.path, readOnly: spec.readOnly ?? false };
    const device = working ?? (await attachLoop(await mountImage(folder, spec.sessionNumber, socket)));
    await symlink(device, this.path);
    this.#follow(device);
    return true;
  }

  #follow(device: string): void {
    if (this.io === undefined || this.#followed?.device === device) return;
    this.#unfollow();
    this.#followed = { device, stop: this.io.follow(this.spec.diskId, () => readDeviceIo(device)) };
  }

  #unfollow(): void {
    this.#followed?.stop();
    this.#followed = undefined;
  }

  /** Returns the block device of a mount that works, and whether the path leads to it. */
  async #find(): Promise<{ readonly working?: string | undefined; readonly isLinked: boolean }> {
    const { sessionNumber } = this.spec;
    if (!(await isMounted(this.folder, sessionNumber))) return { isLinked: false };
    const devices = await loopsOf(imageOf(this.folder, sessionNumber));
    const target = await readlink(this.path).catch(() => undefined);
    const linked = devices.find((device) => device === target);
    return { working: linked ?? devices[0], isLinked: linked !== undefined };
  }

  async #remove(): Promise<void> {
    // Before the device is free for another disk.
    this.#unfollow();
    await removeLink(this.path);
    await unmountImage(this.folder, this.spec.sessionNumber);
  }
}

/** Returns why this host cannot make block devices; undefined when it can. */
export async function whyNoBlockDevices(path = process.env.PATH ?? ""): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "the agent does not run as root";
  for (const device of ["/dev/fuse", "/dev/loop-control"])
    if ((await stat(device).catch(() => undefined)) === undefined) return `there is no ${device}`;
  for (const [program, debianPackage] of [
    [PROGRAM, "libnbd-bin"],
    ["losetup", "mount"],
    ["umount", "mount"],
  ] as const)
    if (!(await isOnPath(program, path))) return `${program} is not on PATH (Debian: ${debianPackage})`;
  return undefined;
}

async function isOnPath(program: string, path: string): Promise<boolean> {
  const found = await Promise.all(
    path.split(":").map((folder) =>
      access(join(folder, program), constants.X_OK).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true);
}
