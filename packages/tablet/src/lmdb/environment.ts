import { chmodSync, mkdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { type Database, IF_EXISTS, open, type RootDatabase } from "lmdb";
import { newerFormat, STORE_FORMAT } from "../format.js";
import { checkDataFile, type OnEntry } from "./data-file.js";
import { hadEarlierLife, markEarlierLife, refuseLostData } from "./earlier-life.js";
import { LMDB_OPTIONS } from "./lmdb-options.js";
import { CHANGE_BYTES, checkRoom, noRoomError, Room } from "./room.js";

export interface LmdbOptions {
  /** Made when it does not exist. Nothing else may be in it. */
  readonly folder: string;
  /**
   * False: no lock, so that several claims may compete as they do on a server, and no check of the data file before it
   * is opened, as it may change meanwhile.
   */
  readonly exclusive?: boolean;
}

/** What the folder holds. One kind is never opened as the other. */
export type LmdbKind = "tablet" | "event log";

/** Values are JSON or plain text; keys are the UTF-8 of theirs. */
export type TextDatabase = Database<string, Buffer>;

/** Values are records; keys are the UTF-8 of theirs. */
export type TableDatabase = Database<Buffer, Buffer>;

/** The formats that this program writes. */
const FORMATS: Readonly<Record<LmdbKind, number>> = { tablet: STORE_FORMAT, "event log": 1 };
const FORMAT_KEY = Buffer.from("format");
export const META = "_meta";

/** One LMDB environment: a folder, its lock, and the meta database that says what the folder holds. */
export class LmdbEnvironment {
  readonly #lock: FolderLock | undefined;
  readonly #folder: string;
  readonly #room: Room;
  readonly #root: RootDatabase<string, Buffer>;
  readonly #meta: TextDatabase;
  #format = STORE_FORMAT;
  readonly #file: Stats;

  private constructor(folder: string, lock: FolderLock | undefined, root: RootDatabase<string, Buffer>) {
    this.#folder = folder;
    this.#room = new Room(folder);
    this.#lock = lock;
    this.#root = root;
    this.#meta = openText(root, META);
    const path = join(folder, "data.mdb");
    this.#file = statSync(path);
    // LMDB has everybody read it, also in a folder that is not this process's own. Only its owner may change that.
    if ((this.#file.mode & 0o077) !== 0 && this.#file.uid === process.geteuid?.()) chmodSync(path, 0o600);
  }

  /**
   * Calls `onEntry` with what the tables hold. Throws UnavailableError when another process has it, DiskFullError when there is no room, InvalidStateError when it
   * is not what it should be.
   */
  static async open(kind: LmdbKind, options: LmdbOptions, onEntry?: OnEntry): Promise<LmdbEnvironment> {
    const { folder } = options;
    let lock: FolderLock | undefined;
    let root: RootDatabase<string, Buffer> | undefined;
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      lock = options.exclusive === false ? undefined : await FolderLock.take(folder);
      refuseLostData(folder);
      if (lock) await checkDataFile(join(folder, "data.mdb"), onEntry);
      checkRoom(folder);
      root = openRoot(folder);
      const environment = new LmdbEnvironment(folder, lock, root);
      await environment.#checkFormat(kind);
      markEarlierLife(folder);
      return environment;
    } catch (error) {
      await root?.close().catch(() => {});
      lock?.release();
      if (error instanceof UnavailableError || error instanceof InvalidStateError) throw error;
      const noRoom = noRoomError(error, `cannot open the ${kind}`, folder);
      if (noRoom !== undefined) throw noRoom;
      throw new InvalidStateError(
        `the folder ${folder} cannot be opened as a ${kind}: ${messageOf(error)}; configure another folder, or restore this one from a backup`,
        { cause: error },
      );
    }
  }

  get meta(): TextDatabase {
    return this.#meta;
  }

  database(name: string): TextDatabase {
    return openText(this.#root, name);
  }

  table(name: string): TableDatabase {
    return this.#root.openDB<Buffer, Buffer>({ name, encoding: "binary", keyEncoding: "binary" });
  }

  /**
   * Runs `action`, which puts no more than so many bytes, inside one write transaction; resolves when it is synced to
   * disk. A throw undoes all of it.
   */
  async write<T>(sizeBytes: number, action: () => T): Promise<T> {
    this.#room.check(sizeBytes);
    try {
      // A child transaction, because a plain one commits what was put before a throw.
      return await this.#root.childTransaction(action);
    } catch (error) {
      throw await causeOf(error);
    }
  }

  /**
   * The same of an `action` that puts and removes, and neither reads nor throws: it is run at once, and LMDB's own thread
   * writes what came of it, without waiting for this one again. With `ifThere`, only where the meta database has that key:
   * else nothing is written, and it resolves with false.
   */
  async writeBlindly(sizeBytes: number, action: () => void, ifThere?: Buffer): Promise<boolean> {
    this.#room.check(sizeBytes);
    try {
      return await (ifThere === undefined
        ? this.#root.batch(action)
        : this.#meta.ifVersion(ifThere, IF_EXISTS, action));
    } catch (error) {
      throw await causeOf(error);
    }
  }

  /** Reads what is stored by now. */
  read(onEntry: OnEntry): Promise<void> {
    return checkDataFile(join(this.#folder, "data.mdb"), onEntry);
  }

  async close(): Promise<void> {
    await this.#root.close();
    this.#lock?.release();
  }

  /** Of a tablet: the format it is in. */
  get format(): number {
    return this.#format;
  }

  /** Inside a write transaction, of a tablet. */
  upgradeFormat(): void {
    this.#meta.putSync(FORMAT_KEY, formatText("tablet"));
    this.#format = FORMATS.tablet;
  }

  /** Throws InvalidStateError when the data file was deleted, or another one is in its place: writes go nowhere then. */
  refuseReplaced(): void {
    const file = statSync(join(this.#folder, "data.mdb"), { throwIfNoEntry: false });
    if (file?.ino === this.#file.ino && file.dev === this.#file.dev) return;
    const what = file === undefined ? "deleted" : "replaced by another file";
    throw new InvalidStateError(
      `data.mdb in ${this.#folder} was ${what} while this process used it: what was written since is lost; restore a backup`,
    );
  }

  async #checkFormat(kind: LmdbKind): Promise<void> {
    const found = this.#meta.get(FORMAT_KEY);
    if (found === undefined) {
      if (hadEarlierLife(this.#folder)) throw new Error("data.mdb is damaged: it holds nothing, and did hold data");
      await this.write(CHANGE_BYTES, () => this.#meta.putSync(FORMAT_KEY, formatText(kind)));
      return;
    }
    const [, foundKind, format] = /^diskmesh (tablet|event log) ([0-9]{1,9})$/.exec(found) ?? [];
    if (foundKind !== kind) throw new Error(`it holds "${found.slice(0, 100)}", not "${formatText(kind)}"`);
    this.#format = Number(format);
    if (this.#format > FORMATS[kind]) throw new InvalidStateError(newerFormat(`the folder ${this.#folder}`, format));
  }
}

function formatText(kind: LmdbKind): string {
  return `diskmesh ${kind} ${FORMATS[kind]}`;
}

function openRoot(folder: string): RootDatabase<string, Buffer> {
  return open<string, Buffer>({ ...LMDB_OPTIONS, path: folder, encoding: "string" });
}

function openText(root: RootDatabase<string, Buffer>, name: string): TextDatabase {
  return root.openDB<string, Buffer>({ name, encoding: "string", keyEncoding: "binary" });
}

/** LMDB's codes for pages that are not what they should be, and for what a transaction becomes that met one. */
const DAMAGE_CODES: readonly unknown[] = [-30797, -30796, -30793, -30782];

/** What an error from LMDB means for whoever opens the folder: damage is reported as such, the rest as it is. */
export function damageOr(error: unknown, folder: string): unknown {
  if (!DAMAGE_CODES.includes((error as { code?: unknown } | undefined)?.code)) return error;
  return new InvalidStateError(`the folder ${folder} is damaged: ${messageOf(error)}; restore it from a backup`, {
    cause: error,
  });
}

/** lmdb reports a failed commit as an error that refers to its reason by a promise, which nobody else handles. */
async function causeOf(error: unknown): Promise<unknown> {
  const reason = (error as { commitError?: Promise<never> } | undefined)?.commitError;
  if (reason === undefined) return error;
  return reason.catch((cause) => cause);
}
