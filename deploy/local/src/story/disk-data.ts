import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { realpath, stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES, messageOf, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { writeLateByNbd } from "./late-write.js";
import { MountedDisk } from "./mounted-disk.js";
import { type Scene, waitFor } from "./scene.js";

const DATA_BYTES = 16 * MIB_BYTES;
const CHUNK_BYTES = MIB_BYTES;
const NBD_TIMEOUT_MS = 20_000;

/** The disk as a program of the instance uses it, until it is released. */
export interface UsedDisk {
  /** Writes after the disk has moved, and returns the refusal. Throws when the write succeeds. */
  writeLate(): Promise<string>;
  /** Ends the use, also when the disk is gone. */
  release(): Promise<void>;
}

/** Checksum of the written data, and the use by which it was written. */
export interface Written {
  readonly checksum: string;
  /** Where the data is, for people. */
  readonly place: string;
  readonly used: UsedDisk;
}

/**
 * Writes random data as a program of the instance would: to a file of a new file system where the disk is a block
 * device, else over NBD. The data is on the devices when this resolves.
 */
export async function writeData(scene: Scene, link: string): Promise<Written> {
  const data = randomData(DATA_BYTES);
  const checksum = createHash("sha256").update(data).digest("hex");
  if (!(await isBlockDevice(scene, link))) return { checksum, place: link, used: await writeByNbd(scene, link, data) };
  const used = await MountedDisk.make(link);
  await used.write(data);
  return { checksum, place: `${used.file}, on ${link}`, used };
}

/** Returns the checksum of the data that `writeData` wrote. */
export async function checksumOf(scene: Scene, link: string): Promise<string> {
  if (!(await isBlockDevice(scene, link))) return checksumByNbd(scene, link);
  await using disk = await MountedDisk.mount(link);
  return createHash("sha256")
    .update(await disk.read())
    .digest("hex");
}

/** A program of the instance that writes to the disk until it is stopped. */
export interface DiskUser {
  /** Resolves to the number of writes. Throws the error of a failed one. */
  stop(): Promise<number>;
}

/** Writes the bytes that are on the disk again and again: to the file where the disk is a block device, else over NBD. */
export async function useDisk(scene: Scene, link: string): Promise<DiskUser> {
  if (!(await isBlockDevice(scene, link)))
    return repeat(() =>
      overNbd(scene, link, async (client) => {
        await client.write(0, await client.read(0, CHUNK_BYTES), { fua: true });
        await disconnectNbd(client);
        return true;
      }),
    );
  const disk = await MountedDisk.mount(link);
  const data = await disk.read();
  return repeat(
    () => disk.rewrite(data),
    () => disk.release(),
  );
}

function repeat(write: () => Promise<unknown>, release = async () => {}): DiskUser {
  let isStopped = false;
  const writing = (async () => {
    let writes = 0;
    for (; !isStopped; writes += 1) await write();
    return writes;
  })();
  // The error is thrown by `stop`.
  writing.catch(() => {});
  return {
    stop: async () => {
      isStopped = true;
      try {
        return await writing;
      } finally {
        await release();
      }
    },
  };
}

async function isBlockDevice(scene: Scene, link: string): Promise<boolean> {
  return waitFor(scene, `the disk at ${link}`, async () => {
    try {
      return (await stat(await realpath(link))).isBlockDevice();
    } catch (error) {
      // A restarted agent serves the disk again once the registry has given it a session.
      throw new UnavailableError(messageOf(error), { cause: error });
    }
  });
}

async function writeByNbd(scene: Scene, link: string, data: Buffer): Promise<UsedDisk> {
  const client = await overNbd(scene, link, async (connected) => {
    for (let offset = 0; offset < data.length; offset += CHUNK_BYTES)
      await connected.write(offset, data.subarray(offset, offset + CHUNK_BYTES));
    await connected.flush();
    return connected;
  });
  return { writeLate: () => writeLateByNbd(client), release: () => disconnectNbd(client) };
}

function checksumByNbd(scene: Scene, link: string): Promise<string> {
  return overNbd(scene, link, async (client) => {
    const hash = createHash("sha256");
    for (let offset = 0; offset < DATA_BYTES; offset += CHUNK_BYTES)
      hash.update(await client.read(offset, CHUNK_BYTES));
    await disconnectNbd(client);
    return hash.digest("hex");
  });
}

/** Ends a connection, even when its server is gone or does not answer. */
async function disconnectNbd(client: NbdClient): Promise<void> {
  await withinTime("an NBD disconnect", client.disconnect()).catch(() => {});
}

// Runs `work` over a connection to the disk, and again when the connection breaks. A restarted agent serves the disk
// again once the registry has given it a session.
function overNbd<T>(scene: Scene, link: string, work: (client: NbdClient) => Promise<T>): Promise<T> {
  return waitFor(scene, `the disk at ${link}`, async () => {
    let client: NbdClient | undefined;
    try {
      client = await withinTime("an NBD connection", NbdClient.connect({ socketPath: link }));
      return await withinTime("NBD reads and writes", work(client));
    } catch (error) {
      if (client) await disconnectNbd(client);
      throw new UnavailableError(messageOf(error), { cause: error });
    }
  });
}

async function withinTime<T>(what: string, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = sleep(NBD_TIMEOUT_MS, undefined, { signal: done.signal }).then(() => {
    throw new TimeoutError(`${what} took longer than ${NBD_TIMEOUT_MS / 1000} s`);
  });
  // Nobody awaits this promise when the work ends first.
  late.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    done.abort();
  }
}

function randomData(sizeBytes: number): Buffer {
  const cipher = createCipheriv("aes-128-ctr", randomBytes(16), randomBytes(16));
  return cipher.update(Buffer.alloc(sizeBytes));
}
