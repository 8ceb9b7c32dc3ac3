import { readdir, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { Driver, nodeMethod, z } from "@diskmesh/driver";
import { blockDeviceOf, textOf } from "./block-device.js";
import { foundDevice } from "./found-device.js";

const settings = z.strictObject({
  /** Time for which the activity light blinks, and for which it then stays dark. */
  blinkMs: z.int().min(10).max(10_000).default(500),
});
const args = z.strictObject({
  device_id: z.string(),
  /** Time for which the light is on or blinks. */
  duration_ms: z.int().min(1).max(3_600_000).default(60_000),
});

/**
 * Makes a drive's light visible to a technician at the rack.
 * @public loaded by its name
 */
export default class DiskIdentify extends Driver<z.output<typeof settings>> {
  static override readonly driverName = "disk-identify";
  static override readonly description = "finding a drive by its light";
  static override readonly settings = settings;

  identify = nodeMethod(
    {
      httpMethods: ["POST"],
      async: true,
      scope: "call",
      exclusiveLock: false,
      description: "Turns the locate light of a device's slot on for a while, or lets its activity light blink",
      args,
    },
    async ({ device_id, duration_ms }, { signal }) => {
      const device = await foundDevice(this.environment, device_id);
      const light = await locateLightOf(device.path);
      if (light === undefined) return this.#blink(device.deviceId, duration_ms, signal);
      await writeFile(light, "1");
      try {
        await sleep(duration_ms, undefined, { signal });
      } finally {
        await writeFile(light, "0");
      }
      return { by: "locate light", light };
    },
  );

  /** Reads in bursts, so that the drive's activity light goes on and off. */
  async #blink(deviceId: string, durationMs: number, signal: AbortSignal): Promise<object> {
    const { blinkMs } = this.environment.settings;
    const endsAtMs = performance.now() + durationMs;
    let reads = 0;
    while (performance.now() < endsAtMs) {
      const offAtMs = performance.now() + blinkMs;
      do {
        signal.throwIfAborted();
        await this.environment.probe(deviceId);
        reads += 1;
        await sleep(READ_EVERY_MS);
      } while (performance.now() < offAtMs);
      await sleep(blinkMs, undefined, { signal });
    }
    return { by: "activity light", reads };
  }
}

const READ_EVERY_MS = 5;

/** Like `locateLightIn`, for a device file. */
async function locateLightOf(path: string): Promise<string | undefined> {
  const drive = await blockDeviceOf(path).catch(() => undefined);
  if (drive === undefined) return undefined;
  return locateLightIn(drive.folder);
}

/** Returns the path of the locate LED's file below a drive's sysfs folder; undefined when the drive has none. */
export async function locateLightIn(folder: string): Promise<string | undefined> {
  const names = await readdir(`${folder}/device`).catch(() => []);
  for (const name of names.filter((each) => each.startsWith("enclosure_device"))) {
    const file = `${folder}/device/${name}/locate`;
    if ((await textOf(file)) !== undefined) return file;
  }
  return undefined;
}
