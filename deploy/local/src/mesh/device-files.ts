import { open } from "node:fs/promises";
import { DEVICE_SIZE_BYTES, DEVICES_PER_HOST, HOSTS, type MeshLayout } from "./layout.js";

/** Creates sparse files that stand for the hosts' drives. Existing files keep their contents. */
export async function makeDeviceFiles(layout: MeshLayout): Promise<void> {
  for (const { hostId } of HOSTS)
    for (let index = 0; index < DEVICES_PER_HOST; index += 1) {
      const file = await open(layout.deviceFile(hostId, index), "a", 0o600);
      try {
        if ((await file.stat()).size === 0) await file.truncate(DEVICE_SIZE_BYTES);
      } finally {
        await file.close();
      }
    }
}
