import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type EngineScene, readMemory } from "@diskmesh/disk-agent/testing";
import { type HostId, messageOf } from "@diskmesh/domain";
import { DISK, HOLDER, KEY, STORAGE, sceneOf, specBetween, specHere } from "./between-hosts.js";

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
  /** Address of the storage host where it has a machine of its own. */
  readonly address?: string;
}

/** Order of a session of the disk on the devices THERE, as a line of a life's input. */
export interface SessionOrder {
  readonly verb: "open" | "serve" | "end" | "look";
  readonly sessionNumber: number;
  readonly holderHostId: HostId;
}

/** Returns the options of a life in a folder: what the lives before it remember. */
export async function formerLifeOf(hostId: HostId, folder: string) {
  const cache = join(folder, "cache.json");
  const found = existsSync(cache) ? await readMemory(hostId, cache) : undefined;
  return { folder, ...(found !== undefined && "memory" in found && { memory: found.memory }) };
}

/**
 * Runs an agent of one host until it is killed. Prints its port, or the path of its disk, once it is ready, and the answer to
 * each line of its input.
 */
export async function liveHost(_: string, order: string): Promise<void> {
  const { folder, hostId, port, isFirst, address }: LifeOrder = JSON.parse(order);
  const scene = sceneOf(hostId, await formerLifeOf(hostId, folder), { address });
  await scene.start();
  if (hostId === STORAGE) {
    if (isFirst) await scene.open(DISK, SESSION, THERE, { holderHostId: HOLDER, sessionKey: KEY });
    process.stdout.write(`${await scene.listen(port, address)}\n`);
  } else {
    if (isFirst) await scene.open(DISK, SESSION, HERE);
    const path = isFirst
      ? await scene.exports.serve(specBetween(port, SESSION, THERE, HERE))
      : scene.exports.find(DISK);
    process.stdout.write(`${path}\n`);
  }
  for await (const line of createInterface({ input: process.stdin })) {
    const answer = await obey(scene, { port, address }, JSON.parse(line)).catch((error) => ({
      error: messageOf(error),
    }));
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
}

async function obey(
  scene: EngineScene,
  { port, address }: Pick<LifeOrder, "port" | "address">,
  { verb, sessionNumber, holderHostId }: SessionOrder,
): Promise<{ readonly path?: string }> {
  const { hostId, exports } = scene;
  const isLocal = hostId === STORAGE;
  if (verb === "serve") {
    const spec = isLocal
      ? specHere(hostId, sessionNumber, THERE)
      : specBetween(port, sessionNumber, THERE, [], undefined, address);
    return { path: await exports.serve(spec) };
  }
  if (verb === "open")
    await scene.open(
      DISK,
      sessionNumber,
      THERE,
      holderHostId === hostId ? undefined : { holderHostId, sessionKey: KEY },
    );
  else if (verb === "end") await exports.end(DISK, sessionNumber);
  else await exports.lookAtSockets();
  return {};
}
