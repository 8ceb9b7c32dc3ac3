import { constants } from "node:fs";
import { type FileHandle, open, readFile, realpath, stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { InvalidArgumentError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { NodeContext } from "./context.js";
import { runProgram } from "./run-program.js";

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
export async function deviceOf(
  { linkTo }: Pick<NodeContext, "linkTo">,
  diskCid: string | undefined,
): Promise<NodeDevice> {
  if (diskCid === undefined || !/^[^/\0]+$/.test(diskCid) || /^\.\.?$/.test(diskCid))
    throw new InvalidArgumentError("publish_context has no CID of a disk: publish the volume to this node first");
  const link = linkTo(diskCid);
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

/** The kernel reads ahead in pieces of this size, and memory stays small. */
const CHUNK_BYTES = 4 * 1024 * 1024;

/**
 * Returns the offset of the first byte that is not zero, or undefined for a device without data. Reads the whole device.
 * Throws UnavailableError when the device cannot be read, e.g. because the disk was fenced.
 */
export async function firstDataIn(device: NodeDevice): Promise<number | undefined> {
  const sizeBytes = await deviceSizeBytes(device);
  const [chunk, zeros] = [Buffer.allocUnsafe(CHUNK_BYTES), Buffer.alloc(CHUNK_BYTES)];
  return reading(device, async (file) => {
    for (let offset = 0; offset < sizeBytes; ) {
      const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, offset);
      if (bytesRead === 0) throw new Error(`it ends at ${offset} of ${sizeBytes} bytes`);
      const found = chunk.subarray(0, bytesRead);
      if (!found.equals(zeros.subarray(0, bytesRead))) return offset + found.findIndex((byte) => byte !== 0);
      offset += bytesRead;
    }
    return undefined;
  });
}

/** Area of a device in which every supported file system has its identification. */
const HEAD_BYTES = 1024 * 1024;

/** Throws UnavailableError when the beginning of the device cannot be read, e.g. because the disk was fenced. */
export async function checkReadable(device: NodeDevice): Promise<void> {
  await reading(device, async (file) => {
    const { bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    if (bytesRead === 0) throw new Error("it has no bytes");
  });
}

async function reading<Result>({ path }: NodeDevice, read: (file: FileHandle) => Promise<Result>): Promise<Result> {
  try {
    await using file = await open(path, "r");
    return await read(file);
  } catch (error) {
    throw new UnavailableError(`device ${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

const ANSWER_TIMEOUT_MS = 10_000;

/** Throws UnavailableError when the device does not answer a read, which the page cache does not serve. */
export async function checkAnswers({ path }: NodeDevice): Promise<void> {
  const args = [`if=${path}`, "of=/dev/null", "iflag=direct", "bs=4096", "count=1", "status=none"];
  const { code, text } = await runProgram("dd", args, ANSWER_TIMEOUT_MS);
  if (code !== 0) throw new UnavailableError(`device ${path} does not answer: ${text}`);
}

/** Returns the device with a number if the kernel has it. */
export async function deviceNumbered(number: string): Promise<NodeDevice | undefined> {
  const facts = await readFile(`/sys/dev/block/${number}/uevent`, "utf8").catch(() => "");
  const name = /^DEVNAME=([\w/!.-]+)$/m.exec(facts)?.[1];
  const device = name === undefined ? undefined : await deviceAt(`/dev/${name}`);
  return device?.number === number ? device : undefined;
}

/**
 * Returns true while the kernel lets nobody else have the device: a mount in any mount namespace holds it, or another
 * device on it, or swap.
 */
export async function isHeld({ path }: NodeDevice): Promise<boolean> {
  try {
    await using _ = await open(path, constants.O_RDONLY | constants.O_EXCL);
    return false;
  } catch (error) {
    // A device that has ended is held by nobody.
    return (error as NodeJS.ErrnoException).code === "EBUSY";
  }
}
