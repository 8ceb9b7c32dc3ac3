import { type FileHandle, open, stat } from "node:fs/promises";
import { DeviceIoError, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { deviceNumber } from "@diskmesh/file-lock";
import { readDirect } from "../host/direct-read.js";
import { writeDirect } from "../host/direct-write.js";
import { diskSequence, drivePlaceOf } from "../host/sysfs.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import { loopAt, loops } from "../kernel/drive-loops.js";
import { attachLoop, runProgram } from "../kernel/loop.js";
import { type GuardRole, linearTable, pathOf, SECTOR_BYTES, sizeOfTable } from "../model/mapped-devices.js";
import type { FileFacts, FileOpener, OpenedFile, OpenHandle } from "./open-file.js";

interface Options {
  readonly files: FileOpener;
  readonly mapper: DeviceMapper;
  readonly log: Logger;
}

interface HeldGuard {
  readonly role: GuardRole;
  /** Size of the file for which the guard was made. */
  sizeBytes: number;
}

/**
 * Opens each device file by a guard: a device of device-mapper that claims the drive, and on which the legs of sessions
 * lie. The guard outlives the agent. A regular file gets a loop device with direct I/O first.
 */
export class GuardedFiles implements FileOpener {
  readonly #options: Options;
  /** Guards that this life has, or is about to make, by drive and sequence. */
  readonly #used = new Set<string>();
  /** Guards of open files, by path. */
  readonly #held = new Map<string, HeldGuard>();
  #isLeaving = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Makes the guard longer, too, when the file has grown: sessions may get the new bytes as soon as their size is known. */
  async look(path: string): Promise<FileFacts> {
    const facts = await this.#options.files.look(path);
    const held = this.#held.get(path);
    if (held !== undefined && facts.sizeBytes > held.sizeBytes) await this.#lengthen(path, held, facts.sizeBytes);
    return facts;
  }

  peek(...place: Parameters<FileOpener["peek"]>): ReturnType<FileOpener["peek"]> {
    return this.#options.files.peek(...place);
  }

  async #lengthen(path: string, held: HeldGuard, sizeBytes: number): Promise<void> {
    const { log } = this.#options;
    try {
      const { role } = held;
      if (role.isOnFile) await runProgram("losetup", ["--set-capacity", await loopAt(role.drive)]);
      await this.#guard(path, role, sizeBytes);
      held.sizeBytes = sizeBytes;
    } catch (error) {
      log.warn({ path, error: messageOf(error) }, "guard of a drive that has grown not lengthened");
    }
  }

  /** From now on a close leaves the guard to the agent's next life. */
  leave(): void {
    this.#isLeaving = true;
  }

  async open(path: string): Promise<OpenedFile> {
    const { files } = this.#options;
    const facts = await files.look(path);
    const file = (await stat(path)).isFile() ? await files.open(path) : undefined;
    try {
      const role = await roleOf(await this.#loopOrDrive(path), file !== undefined);
      this.#used.add(keyOf(role));
      const number = await this.#guard(path, role, facts.sizeBytes);
      // The guard has it open, so that the kernel ends it with the guard.
      if (role.isOnFile) await runProgram("losetup", ["--detach", await loopAt(role.drive)]);
      const drive = await drivePlaceOf(role.drive);
      const handle = await open(pathOf(number), "r+");
      const held: HeldGuard = { role, sizeBytes: facts.sizeBytes };
      this.#held.set(path, held);
      const close = async () => {
        if (this.#held.get(path) === held) this.#held.delete(path);
        await handle.close();
        if (!this.#isLeaving) await this.#end(role);
        await file?.handle.close();
      };
      return { ...(file ?? facts), handle: { ...guardHandle(handle, number), drive, close } };
    } catch (error) {
      await file?.handle.close();
      throw error;
    }
  }

  /** Returns the number of the drive's guard, which is made, or made longer. */
  async #guard(path: string, role: GuardRole, sizeBytes: number): Promise<string> {
    const { files, mapper } = this.#options;
    const present = await mapper.find(role);
    if (present !== undefined && sizeOfTable(present.table) >= sizeBytes - (sizeBytes % SECTOR_BYTES))
      return present.number;
    // Says who else has the drive. Guards of several agents would not exclude each other.
    if (present === undefined) await (await files.open(role.isOnFile ? await loopAt(role.drive) : path)).handle.close();
    return mapper.ensure({ role, table: linearTable([{ on: role.drive, offsetBytes: 0, sizeBytes }]) });
  }

  /** Ends the guard that a former life of the agent has left over the file. */
  async clear(path: string): Promise<void> {
    const drive = await this.#driveOf(path).catch(() => undefined);
    if (drive !== undefined) await this.#end(await roleOf(drive, (await stat(path)).isFile()));
  }

  /** Ends the guards of drives that no file names, once the legs on them are gone. */
  async clearOthers(): Promise<void> {
    const { mapper, log } = this.#options;
    for (const { role } of await mapper.list()) {
      if (role.kind !== "guard" || this.#used.has(keyOf(role))) continue;
      log.warn({ drive: role.drive }, "guard of a drive that is not held removed");
      void mapper.removeWhenFree(role, { isDue: () => !this.#used.has(keyOf(role)) });
    }
  }

  /** Removes a guard, as soon as no leg lies on it. */
  async #end(role: GuardRole): Promise<void> {
    const { mapper, log } = this.#options;
    const onWait = (reason: string) => log.warn({ drive: role.drive, reason }, "guard of a drive is in use");
    await mapper.removeWhenFree(role, { onWait });
    this.#used.delete(keyOf(role));
  }

  /** Returns the number of the drive at the path, or of the loop device on the file there, which is made if need be. */
  async #loopOrDrive(path: string): Promise<string> {
    const drive = await this.#driveOf(path);
    if (drive !== undefined) return drive;
    try {
      await attachLoop(path);
    } catch (error) {
      const reason = `the engine kernel needs a file system with direct I/O: ${messageOf(error)}`;
      throw new DeviceIoError(`device file ${JSON.stringify(path)} cannot be used: ${reason}`, { cause: error });
    }
    const made = await this.#driveOf(path);
    if (made === undefined) throw new UnavailableError(`${JSON.stringify(path)} was replaced while it was opened`);
    return made;
  }

  /** Returns the number of the drive at the path, or of the loop device on the file there; undefined without one. */
  async #driveOf(path: string): Promise<string | undefined> {
    const stats = await stat(path, { bigint: true });
    if (stats.isBlockDevice()) return deviceNumber(stats.rdev);
    const onFile = `${deviceNumber(stats.dev)} ${stats.ino}`;
    return (await loops()).find(({ file }) => file === onFile)?.number;
  }
}

async function roleOf(drive: string, isOnFile: boolean): Promise<GuardRole> {
  return { kind: "guard", drive, sequence: Number(await diskSequence(drive)), isOnFile };
}

function keyOf({ drive, sequence }: GuardRole): string {
  return `${drive}/${sequence}`;
}

/**
 * Probes use the guard, and sessions use legs. The guard's page cache does not see what legs write, so what is read is no
 * data. The table of runs and the records, which no disk has, are written past the page caches.
 */
function guardHandle(handle: FileHandle, number: string): Omit<OpenHandle, "close"> {
  return {
    read: (...of) => handle.read(...of),
    write: () => Promise.reject(new Error("a guard is only read")),
    datasync: () => Promise.reject(new Error("a guard is only read")),
    punchHole: () => Promise.reject(new Error("a guard is only read")),
    guard: number,
    readBack: async (offsetBytes, lengthBytes) => (await readDirect(pathOf(number), offsetBytes, lengthBytes)).bytes,
    writeBack: (offsetBytes, bytes) => writeDirect(pathOf(number), offsetBytes, bytes),
  };
}
