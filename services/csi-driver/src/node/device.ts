import { type FileHandle, open, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InvalidArgumentError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";

/** A block device of this node. */
export interface NodeDevice {
  readonly path: string;
  /** Device number `major:minor`, as mountinfo has it. */
  readonly number: string;
}

/** The agent links a disk before the controller's answer, and again within this time after a restart. */
const LINK_TIMEOUT_MS = 5_000;
const LINK_INTERVAL_MS = 50;

/**
 * Returns the block device of a disk, to which the agent of this node links. Throws UnavailableError when there is no
 * link in time, and InvalidStateError when the agent can only offer a socket.
 */
export async function deviceOf(dynamicDisksFolder: string, diskCid: string | undefined): Promise<NodeDevice> {
  if (diskCid === undefined || !/^[^/\0]+$/.test(diskCid) || /^\.\.?$/.test(diskCid))
    throw new InvalidArgumentError("publish_context has no CID of a disk: publish the volume to this node first");
  const link = join(dynamicDisksFolder, diskCid);
  const path = await linked(link);
  const found = await stat(path);
  if (found.isBlockDevice()) return { path, number: deviceNumber(found.rdev) };
  if (!found.isSocket()) throw new InvalidStateError(`${path}, to which ${link} leads, is not a block device`);
  throw new InvalidStateError(
    `disk ${diskCid} is an NBD socket here, ${path}, and volumes need block devices: let the disk type say ` +
      "`export: device`, and run this host's agent as root with nbdfuse on PATH",
  );
}

async function linked(link: string): Promise<string> {
  const untilMs = performance.now() + LINK_TIMEOUT_MS;
  for (;;)
    try {
      return await realpath(link);
    } catch (error) {
      if (performance.now() > untilMs)
        throw new UnavailableError(`the disk is not attached to this node: ${messageOf(error)}`, { cause: error });
      await delay(LINK_INTERVAL_MS);
    }
}

/** Returns the device at a path, e.g. of a published block volume; undefined when there is none. */
export async function deviceAt(path: string): Promise<NodeDevice | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found?.isBlockDevice() ? { path, number: deviceNumber(found.rdev) } : undefined;
}

/** Splits a device number as the kernel encodes it for programs. */
function deviceNumber(encoded: number): string {
  const high = Math.floor(encoded / 2 ** 32);
  const low = encoded % 2 ** 32;
  const major = ((low >>> 8) & 0xfff) | (high & 0xfffff000);
  const minor = (low & 0xff) | ((low >>> 12) & 0xffffff00);
  return `${major}:${minor}`;
}

const SECTOR_BYTES = 512;

export async function deviceSizeBytes({ number }: NodeDevice): Promise<number> {
  return Number(await readFile(`/sys/dev/block/${number}/size`, "utf8")) * SECTOR_BYTES;
}

/** Returns true for a device that refuses writes, as that of a disk that is attached for reading. */
export async function isReadOnlyDevice({ number }: NodeDevice): Promise<boolean> {
  return (await readFile(`/sys/dev/block/${number}/ro`, "utf8")).trim() === "1";
}

/** Area of a device in which every supported file system has its identification. */
const HEAD_BYTES = 1024 * 1024;

/** Throws UnavailableError when the beginning of the device cannot be read, e.g. because the disk was fenced. */
export async function checkReadable({ path }: NodeDevice): Promise<void> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, "r");
    const { bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    if (bytesRead === 0) throw new Error("it has no bytes");
  } catch (error) {
    throw new UnavailableError(`device ${path} cannot be read: ${messageOf(error)}`, { cause: error });
  } finally {
    await file?.close();
  }
}
