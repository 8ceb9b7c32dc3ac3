import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import * as files from "node:fs/promises";
import { join } from "node:path";
import { openLedger } from "@diskmesh/disk-agent/cache";
import { parseHostId, silentLogger } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import { jsonText, spoilBytes, spoilJson } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";

const HOST_ID = parseHostId("host-1");
const CACHE = {
  format: "diskmesh-agent-cache-2",
  hostId: "host-1",
  tabletId: "tablet",
  tabletGeneration: 3,
  exportFloor: 2,
  devices: {
    "device-1": {
      order: { tabletGeneration: 3, deviceGeneration: 9, kind: "attach" },
      identity: { sizeBytes: 4_096, serialNumber: "s", fileIdentity: "f" },
      session: { number: 4, purpose: "disk", diskId: "disk-1", holderHostId: "host-1", ended: false },
    },
    "device-2": { order: { tabletGeneration: 2, deviceGeneration: 8, kind: "detach" } },
  },
  exports: {
    "disk-1": {
      sessionNumber: 4,
      spec: {
        blockSizeBytes: 4_096,
        extents: [{ deviceId: "device-1", hostId: "host-1", address: "h:1", sizeBytes: 4_096 }],
      },
    },
  },
  complete: true,
};

/** The agent's cache file after a crash or a manual change. */
export class AgentCacheSurface implements Surface {
  readonly name = "agent-cache";
  readonly atOnce = 1;
  readonly counts = new Counts();
  readonly #cacheFile: string;
  readonly #markFile: string;

  constructor(folder: string) {
    this.#cacheFile = join(folder, "cache.json");
    this.#markFile = join(folder, "mark");
  }

  next(random: Random): Buffer {
    const oldFormat = { ...CACHE, format: "diskmesh-agent-cache-1" };
    let cache: unknown = random.chance(0.3) ? oldFormat : CACHE;
    for (let change = random.below(3); change > 0; change--) cache = spoilJson(random, cache);
    const text = jsonText(random, cache);
    const sealed = cache === oldFormat || random.chance(0.1) ? text : seal(text);
    return random.chance(0.2) ? spoilBytes(random, sealed) : sealed;
  }

  async send(input: Buffer): Promise<void> {
    writeFileSync(this.#cacheFile, input);
    let refused = false;
    const log = {
      ...silentLogger,
      error: () => {
        refused = true;
      },
    };
    const paths = { cacheFile: this.#cacheFile, markFile: this.#markFile };
    // A constant time, so that the renamed unusable caches overwrite each other.
    const { ledger, cacheIsLost } = await openLedger(HOST_ID, paths, { nowMs: 0, files, log });
    this.counts.add(refused ? "set aside" : "taken");
    if (refused !== cacheIsLost) throw new Find(`set aside: ${refused}, and yet taken for lost: ${cacheIsLost}`);
    const { tabletGeneration, exportFloor, devices } = ledger.memory;
    const numbers = [tabletGeneration, exportFloor];
    for (const { order, session } of devices.values())
      numbers.push(order?.tabletGeneration ?? 0, order?.deviceGeneration ?? 0, session?.number ?? 0);
    const wrong = numbers.find((one) => !Number.isSafeInteger(one) || one < 0);
    if (wrong !== undefined) throw new Find(`taken with the number ${wrong}`);
  }
}

/** Adds the agent's checksum, so that faults behind the checksum are reached. */
function seal(text: Buffer): Buffer {
  const sum = createHash("sha256").update(text).digest("hex");
  return Buffer.concat([Buffer.from(`{"sha256":"${sum}",`), text.subarray(1)]);
}
