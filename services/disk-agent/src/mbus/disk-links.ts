import { readdir, readlink, rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { type DiskId, InvalidArgumentError, isJsonObject, NotFoundError, parseDiskId, quoted } from "@diskmesh/domain";
import { removeFile } from "../base/remove-file.js";
import { asDiskId, devicePathIn, socketPathIn } from "../engines/export-path.js";

/** Symbolic links in a folder, one per disk and named by the disk's id, by which jobs on the host find their disks. */
export class DiskLinks {
  readonly #folder: string;
  readonly #findExport: (diskId: DiskId) => Promise<string | undefined>;

  constructor(options: {
    folder: string;
    /** Returns the socket at which this agent serves a disk; undefined when it does not serve it. */
    findExport: (diskId: DiskId) => Promise<string | undefined>;
  }) {
    this.#folder = options.folder;
    this.#findExport = options.findExport;
  }

  /** Links a disk to this agent's socket for it. A hint must name the same path, or the call fails. */
  async add(diskCid: unknown, hint: unknown): Promise<void> {
    const diskId = parseCid(diskCid);
    const target = await this.#findExport(diskId);
    if (target === undefined)
      throw new NotFoundError(`disk ${diskId} is not exported on this host: publish it to the host first`, {
        about: { disk_id: diskId },
      });
    const hinted = pathOfHint(hint);
    if (hinted !== undefined && hinted !== target)
      throw new InvalidArgumentError(
        `the hint's path ${quoted(hinted)} is not the export of disk ${diskId}, which is at ${target}`,
      );
    const link = join(this.#folder, diskId);
    if ((await readlink(link).catch(() => undefined)) === target) return;
    // A rename replaces an older link atomically.
    const temporary = `${link}${TEMPORARY}`;
    await removeFile(temporary);
    await symlink(target, temporary);
    await rename(temporary, link);
  }

  /** Returns whether the disk's link leads to its present socket. */
  async leadsToDisk(diskCid: unknown): Promise<boolean> {
    const diskId = parseCid(diskCid);
    const target = await readlink(join(this.#folder, diskId)).catch(() => undefined);
    return target !== undefined && target === (await this.#findExport(diskId));
  }

  /** Returns the ids of the disks whose link leads to their present socket, sorted. */
  async list(): Promise<string[]> {
    // Skips links under temporary names.
    const names = (await readdir(this.#folder)).filter((name) => !name.endsWith(TEMPORARY));
    const leading = await Promise.all(names.map((name) => this.leadsToDisk(name)));
    return names.filter((_, index) => leading[index]).sort();
  }

  /** Removes links to exports that have ended, which a restart or an interrupted end left. Returns their names. */
  async clear(exportsFolder: string, isExported: (diskId: DiskId) => boolean): Promise<string[]> {
    const cleared: string[] = [];
    for (const name of await readdir(this.#folder)) {
      const diskId = asDiskId(name);
      if (diskId === undefined || isExported(diskId)) continue;
      const target = await readlink(join(this.#folder, name)).catch(() => undefined);
      const own = [socketPathIn(exportsFolder, name), devicePathIn(exportsFolder, name)];
      if (target === undefined || !own.includes(target)) continue;
      await removeFile(join(this.#folder, name));
      cleared.push(name);
    }
    return cleared;
  }

  /** Removes the disk's link; succeeds when it does not exist. */
  async remove(diskCid: unknown): Promise<void> {
    await removeFile(join(this.#folder, parseCid(diskCid)));
  }
}

const TEMPORARY = ".new";

function parseCid(value: unknown): DiskId {
  if (typeof value !== "string") throw new InvalidArgumentError("the disk cid is not a string");
  return parseDiskId(value, "disk_cid");
}

/** Returns the path in a BOSH disk hint: the hint itself when it is a text, otherwise its `path`. */
function pathOfHint(hint: unknown): string | undefined {
  if (hint === null || hint === undefined || hint === "") return undefined;
  if (typeof hint === "string") return hint;
  if (!isJsonObject(hint)) throw new InvalidArgumentError("the disk hint is neither an object nor a string");
  const { path } = hint;
  if (path === undefined || path === null || path === "") return undefined;
  if (typeof path !== "string") throw new InvalidArgumentError("the disk hint's path is not a string");
  return path;
}
