import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type EngineScene, readMemory } from "@diskmesh/disk-agent/testing";
import { type HostId, messageOf } from "@diskmesh/domain";
import { DISK, HOLDER, KEY, STORAGE, sceneOf, specBetween, specHere } from "./between-hosts.js";
import { makeWireGuard, Network } from "./networks.js";

/** Session of the lives. */
const SESSION = 1;
/** Devices of the storage host, and of the holder. */
export const THERE = ["a", "d"];
export const HERE = ["b"];

/** Carrier of the bytes between hosts: NVMe/TCP, NVMe/TCP inside WireGuard, or the engine node. */
export type Way = "NVMe/TCP" | "WireGuard" | "node";

/** Order of the parent of a life. */
export interface LifeOrder {
  readonly folder: string;
  readonly hostId: HostId;
  /** Port of the storage host's agent; 0 before its first life. */
  readonly port: number;
  /** False in the lives that find what the first one has published. */
  readonly isFirst: boolean;
  /** Addresses of hosts that have machines of their own. */
  readonly addresses?: Readonly<Record<HostId, string>>;
  /** NVMe/TCP by default. */
  readonly way?: Way;
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
  const { folder, hostId, port, isFirst, addresses, way }: LifeOrder = JSON.parse(order);
  const address = addresses?.[STORAGE];
  const options = { ...(await optionsOf(hostId, folder, { addresses, way })), address };
  const scene = sceneOf(hostId, await formerLifeOf(hostId, folder), options);
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

async function optionsOf(
  hostId: HostId,
  folder: string,
  { addresses, way }: Pick<LifeOrder, "addresses" | "way">,
): Promise<NonNullable<Parameters<typeof sceneOf>[2]>> {
  if (way === "node") return { whyNot: "the hosts have no storage network" };
  if (way !== "WireGuard") return {};
  const wireguard = makeWireGuard(hostId, Network.here, addresses?.[hostId] ?? "", { folder });
  const whyNot = await wireguard.start();
  if (whyNot !== undefined) throw new Error(whyNot);
  return { wireguard };
}

async function obey(
  scene: EngineScene,
  { port, address }: { readonly port: number; readonly address: string | undefined },
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
