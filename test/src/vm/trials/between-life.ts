import { existsSync } from "node:fs";
import { join } from "node:path";
import { readMemory } from "@diskmesh/disk-agent/testing";
import type { HostId } from "@diskmesh/domain";
import { DISK, HOLDER, KEY, STORAGE, sceneOf, specBetween } from "./between-hosts.js";

/** Session of the lives. */
const SESSION = 1;
/** Devices of the storage host, and of the holder. */
export const THERE = ["a", "d"];
export const HERE = ["b"];

/** Order of the parent of a life. */
export interface LifeOrder {
  readonly folder: string;
  readonly hostId: HostId;
  /** Port of the storage host's agent; 0 before its first life. */
  readonly port: number;
  /** False in the lives that find what the first one has published. */
  readonly isFirst: boolean;
}

/** Returns the options of a life in a folder: what the lives before it remember. */
export async function formerLifeOf(hostId: HostId, folder: string) {
  const cache = join(folder, "cache.json");
  const found = existsSync(cache) ? await readMemory(hostId, cache) : undefined;
  return { folder, ...(found !== undefined && "memory" in found && { memory: found.memory }) };
}

/** Runs an agent of one host until it is killed. Prints its port, or the path of its disk, once it is ready. */
export async function liveHost(_: string, order: string): Promise<void> {
  const { folder, hostId, port, isFirst }: LifeOrder = JSON.parse(order);
  const scene = sceneOf(hostId, await formerLifeOf(hostId, folder));
  await scene.start();
  if (hostId === STORAGE) {
    if (isFirst) await scene.open(DISK, SESSION, THERE, { holderHostId: HOLDER, sessionKey: KEY });
    process.stdout.write(`${await scene.listen(port)}\n`);
  } else {
    if (isFirst) await scene.open(DISK, SESSION, HERE);
    const path = isFirst
      ? await scene.exports.serve(specBetween(port, SESSION, THERE, HERE))
      : scene.exports.find(DISK);
    process.stdout.write(`${path}\n`);
  }
  await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
}
