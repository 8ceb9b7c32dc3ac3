import { existsSync } from "node:fs";
import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { type HostId, InvalidStateError, type Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { loopsOf } from "../kernel/loop.js";
import { forgetLoops } from "../kernel/loop-list.js";
import { sessionOfUuid } from "../model/mapped-devices.js";
import type { ExportSpec } from "../model/memory.js";
import { DeviceDisk, removeLink } from "./device-disk.js";
import type { ServedDisk } from "./engine.js";
import { isDeviceLink } from "./export-path.js";
import { imageOf, isMounted, loopListOf, PROGRAM, sessionOfImage, unmountImage } from "./nbdfuse.js";

interface BlockDevicesOptions {
  readonly hostId: HostId;
  /** Folder of the exports. */
  readonly folder: string;
  /** Reason why the host cannot make block devices; undefined when it can. */
  readonly whyNot: string | undefined;
  /** Ends block devices of a folder; those of the kernel only where the session is not to be kept. Returns the sessions of nbdfuse. */
  readonly endDevices?: EndBlockDevices;
  readonly clock: Clock;
  readonly log: Logger;
}

export type EndBlockDevices = (folder: string, isKept: (sessionNumber: number) => boolean) => Promise<number[]>;

/** Makes block devices of disks that the engine `node` serves on NBD sockets: a file by FUSE, and a loop device of the file. */
export class BlockDevices {
  readonly #options: BlockDevicesOptions;

  constructor(options: BlockDevicesOptions) {
    this.#options = options;
  }

  /**
   * Returns whether the disk is to be a block device. Throws InvalidStateError when it is and the host cannot make one.
   */
  isDevice({ diskId, exportKind }: ExportSpec): boolean {
    const { whyNot, hostId } = this.#options;
    if (exportKind !== "DEVICE") return false;
    if (whyNot !== undefined)
      throw new InvalidStateError(
        `disk ${diskId} is to be a block device, which host ${hostId} cannot make: ${whyNot}. Or let the disk type say "export: nbd"`,
        { about: { disk_id: diskId } },
      );
    return true;
  }

  /**
   * Returns the served disk as a block device, which is made now. Calls `repair` when the block device has died, until it is
   * made anew.
   */
  async of(spec: ExportSpec, served: ServedDisk, repair: () => Promise<void>): Promise<ServedDisk> {
    const disk = new DeviceDisk({ ...this.#options, spec, served, repair });
    try {
      await disk.restore();
      return disk;
    } catch (error) {
      await disk.end();
      throw error;
    }
  }

  /** Ends the block devices that a former life of the agent left. The kernel carries on those of sessions that are served. */
  async endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    const { folder, endDevices = endBlockDevices, log } = this.#options;
    const sessions = await endDevices(folder, isServed);
    if (sessions.length > 0) log.info({ sessions }, "block devices of a former life removed");
  }
}

export const endBlockDevices: EndBlockDevices = async (folder, isKept) => {
  const names = await readdir(folder);
  const numbers = [...new Set(names.map(sessionOfImage).filter((number) => number !== undefined))];
  // Links first, because another disk may get the number of a detached loop device.
  await removeLinks(folder, names, isKept);
  for (const sessionNumber of numbers) {
    await unmountImage(folder, sessionNumber);
    // The session may be served again, and its users may still have a device that ended with the agent.
    await forgetLoops(loopListOf(folder, sessionNumber));
  }
  return numbers;
};

/** Returns whether the link leads to a block device of the session that works: its process runs, or the kernel carries it. */
export async function isLiveDevice(folder: string, sessionNumber: number, link: string): Promise<boolean> {
  const target = await readlink(link).catch(() => "");
  if ((await sessionOfMapped(target)) === sessionNumber) return true;
  if (!(await isMounted(folder, sessionNumber))) return false;
  return (await loopsOf(imageOf(folder, sessionNumber))).includes(target);
}

/** Removes the links but those to devices of these sessions that the kernel carries. */
async function removeLinks(
  folder: string,
  names: readonly string[],
  isKept: (sessionNumber: number) => boolean,
): Promise<void> {
  for (const name of names.filter(isDeviceLink)) {
    const mapped = await sessionOfMapped(await readlink(join(folder, name)).catch(() => ""));
    if (mapped === undefined || !isKept(mapped)) await removeLink(join(folder, name));
  }
}

/** Returns the session of a disk's device of device-mapper; undefined for any other path. */
async function sessionOfMapped(path: string): Promise<number | undefined> {
  const uuid = await readFile(`/sys/block/${basename(path)}/dm/uuid`, "utf8").catch(() => "");
  return sessionOfUuid(uuid.trim());
}

/** Returns why this host cannot make block devices; undefined when it can. */
export async function whyNoBlockDevices(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "the agent does not run as root";
  for (const device of ["/dev/fuse", "/dev/loop-control"])
    if ((await stat(device).catch(() => undefined)) === undefined) return `there is no ${device}`;
  const folders = (process.env.PATH ?? "").split(":");
  for (const [program, debianPackage] of [
    [PROGRAM, "libnbd-bin"],
    ["losetup", "mount"],
    ["umount", "mount"],
  ] as const)
    if (!folders.some((folder) => existsSync(join(folder, program))))
      return `${program} is not on PATH (Debian: ${debianPackage})`;
  return undefined;
}
