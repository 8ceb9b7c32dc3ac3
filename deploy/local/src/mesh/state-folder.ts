import { lstat, mkdir, readdir, readFile, rm, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { InvalidStateError, MIB_BYTES, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import { FOLDER_LOCK_NAME, FolderLock } from "@diskmesh/file-lock";
import { DEVICE_SIZE_BYTES, DEVICES_PER_HOST, HOSTS, type MeshLayout } from "./layout.js";

const FORMAT = 1;
const MARKER = "mesh.json";
const ROOM_FOR_THE_REST_BYTES = 256 * MIB_BYTES;

/** Lock on the state folder of a mesh. While it is open, no second launcher can use the folder. */
export class StateFolder implements AsyncDisposable {
  private constructor(private readonly lock: FolderLock) {}

  /** Creates the folder, or opens that of an earlier run; `fresh` deletes its contents first. */
  static async open(layout: MeshLayout, options: { readonly fresh: boolean }): Promise<StateFolder> {
    const { stateFolder } = layout;
    if (options.fresh) await requireOurs(stateFolder);
    await makeStateFolder(stateFolder, options);
    const folder = new StateFolder(await FolderLock.take(stateFolder));
    try {
      if (options.fresh) await deleteState(stateFolder);
      await makeFolders(layout);
      await checkMarker(stateFolder);
      await checkEndpoints(layout.endpointsFile);
      await checkSpace(layout);
      return folder;
    } catch (error) {
      await folder[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.lock.release();
  }
}

async function requireOurs(folder: string): Promise<void> {
  const isOurs = basename(folder) === ".diskmesh" || (await readText(join(folder, MARKER))) !== undefined;
  if (!isOurs && (await isNonEmpty(folder)))
    throw new InvalidStateError(`${folder} does not look like the state of a mesh: --fresh will not delete it`);
}

/** Creates the folder. With `fresh`, replaces a file of the same name. */
async function makeStateFolder(folder: string, { fresh }: { readonly fresh: boolean }): Promise<void> {
  const isThere = (await lstat(folder).catch(() => undefined)) !== undefined;
  if (isThere && !(await stat(folder).catch(() => undefined))?.isDirectory()) {
    if (!fresh) throw corrupt(folder, "is no folder");
    await rm(folder);
  }
  await makeFolder(folder);
}

// Keeps the lock file, which this process holds: with a new file a second launcher could start.
async function deleteState(folder: string): Promise<void> {
  for (const name of await readdir(folder))
    if (name !== FOLDER_LOCK_NAME) await rm(join(folder, name), { recursive: true, force: true });
}

async function isNonEmpty(folder: string): Promise<boolean> {
  const found = await lstat(folder).catch(() => undefined);
  if (!found?.isDirectory()) return found !== undefined;
  return (await readdir(folder)).length > 0;
}

async function makeFolders(layout: MeshLayout): Promise<void> {
  const folders = [
    dirname(layout.configFile("any")),
    dirname(layout.logFile("any")),
    ...HOSTS.map(({ hostId }) => dirname(layout.deviceFile(hostId, 0))),
  ];
  for (const folder of folders) await makeFolder(folder);
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" || code === "ENOTDIR") throw corrupt(folder, "is no folder");
    throw new UnavailableError(`cannot make the folder ${folder}: ${message}`, { cause: error });
  }
}

async function checkMarker(folder: string): Promise<void> {
  const file = join(folder, MARKER);
  const text = await readText(file);
  if (text === undefined) return replaceFile(file, `${JSON.stringify({ format: FORMAT })}\n`);
  if (parseObject(text)?.format !== FORMAT) throw corrupt(file, `is not the mark of a state of format ${FORMAT}`);
}

// Throws when another program has damaged the file. Each start rewrites the file, but other programs may have changed
// it since.
async function checkEndpoints(file: string): Promise<void> {
  const text = await readText(file);
  if (text !== undefined && !parseObject(text)) throw corrupt(file, "holds no JSON object");
}

// Throws when the disk has too little free space. Device files are sparse and fill up when they are erased, and a full
// disk would look like broken devices.
async function checkSpace(layout: MeshLayout): Promise<void> {
  let missingBytes = ROOM_FOR_THE_REST_BYTES;
  for (const { hostId } of HOSTS)
    for (let index = 0; index < DEVICES_PER_HOST; index += 1) {
      const found = await lstat(layout.deviceFile(hostId, index)).catch(() => undefined);
      missingBytes += Math.max(0, DEVICE_SIZE_BYTES - (found?.blocks ?? 0) * 512);
    }
  const { bavail, bsize } = await statfs(layout.stateFolder);
  if (bavail * bsize < missingBytes)
    throw new ResourceExhaustedError(
      `${layout.stateFolder} has ${toMiB(bavail * bsize)} MiB left, and the mesh needs ${toMiB(missingBytes)} MiB: ` +
        "free some, or choose another folder by --state",
    );
}

function corrupt(path: string, what: string): InvalidStateError {
  return new InvalidStateError(`the state folder is corrupt: ${path} ${what}. Start from nothing by --fresh`);
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw corrupt(file, `cannot be read (${message})`);
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function toMiB(bytes: number): number {
  return Math.ceil(bytes / MIB_BYTES);
}
