import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { DynamicDisk, Instance } from "@diskmesh/api/director";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import {
  InvalidStateError,
  MIB_BYTES,
  messageOf,
  NotFoundError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { agentName, type MeshLayout } from "../layout.js";
import { DISK_POOL } from "./deployment.js";
import { runTask, type Scene, waitFor } from "./scene.js";

export const DISK_NAME = "demo-disk";
const DATA_BYTES = 16 * MIB_BYTES;

const DISK_SIZE_BYTES = 64 * MIB_BYTES;
const CHUNK_BYTES = MIB_BYTES;
const NBD_TIMEOUT_MS = 20_000;

/** Returns the disk as the director knows it; undefined when there is none. */
export async function findDisk(scene: Scene): Promise<DynamicDisk | undefined> {
  const { disk } = await waitFor(scene, `disk ${DISK_NAME}`, async () => {
    try {
      return await scene.clients.disks.getDisk({ diskName: DISK_NAME });
    } catch (error) {
      if (error instanceof NotFoundError) return { disk: undefined };
      throw error;
    }
  });
  return disk;
}

/** Creates the disk if there is none, and attaches it to the instance's VM. */
export async function provideDisk(scene: Scene, instance: Instance): Promise<DynamicDisk> {
  const request = {
    diskName: DISK_NAME,
    instanceId: instance.instanceId,
    diskPoolName: DISK_POOL,
    sizeBytes: DISK_SIZE_BYTES,
    wait: true,
  };
  await runTask(scene, `provide ${DISK_NAME}`, () => scene.clients.disks.provideDisk(request));
  const disk = await findDisk(scene);
  if (disk?.instanceId !== instance.instanceId)
    throw new InvalidStateError(
      `${DISK_NAME} is attached to ${disk?.instanceId || "nothing"}, not to ${instance.instanceId}`,
    );
  return disk;
}

/** Detaches the disk from its VM; does nothing when it is not attached. */
export async function detachDisk(scene: Scene): Promise<void> {
  await runTask(scene, `detach ${DISK_NAME}`, () =>
    scene.clients.disks.detachDisk({ diskName: DISK_NAME, wait: true }),
  );
}

/**
 * Returns the path of the link by which an instance's programs find the disk. The instance's agent creates the link.
 */
export function linkOf(layout: MeshLayout, agentId: string, diskCid: string): string {
  return join(layout.dataFolder(agentName(agentId)), "data/dynamic_disks", diskCid);
}

/** Checksum of the written data, and the connection over which it was written. */
export interface Written {
  readonly checksum: string;
  readonly client: NbdClient;
}

/**
 * Writes random data as a program of the instance would, and flushes it to the devices. The caller closes the
 * connection.
 */
export function writeData(scene: Scene, link: string): Promise<Written> {
  const data = randomData(DATA_BYTES);
  return overNbd(scene, link, async (client) => {
    for (let offset = 0; offset < DATA_BYTES; offset += CHUNK_BYTES)
      await client.write(offset, data.subarray(offset, offset + CHUNK_BYTES));
    await client.flush();
    return { checksum: createHash("sha256").update(data).digest("hex"), client };
  });
}

/** Returns the checksum of the bytes that `writeData` writes. */
export function checksumOf(scene: Scene, link: string): Promise<string> {
  return overNbd(scene, link, async (client) => {
    const hash = createHash("sha256");
    for (let offset = 0; offset < DATA_BYTES; offset += CHUNK_BYTES)
      hash.update(await client.read(offset, CHUNK_BYTES));
    await disconnectNbd(client);
    return hash.digest("hex");
  });
}

/** Ends a connection, even when its server is gone or does not answer. */
export async function disconnectNbd(client: NbdClient): Promise<void> {
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
