import { existsSync, realpathSync } from "node:fs";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { diskFullError, messageOf, UnavailableError } from "@diskmesh/domain";

export interface BaseFolder {
  readonly cacheFile: string;
  /** Mark file: its existence proves that an agent has run here, even when the cache is lost. */
  readonly markFile: string;
  /** Mark file while an agent runs. */
  readonly runMark: string;
  /** Config of the running agent, for `--check-config`. */
  readonly runningConfig: string;
  /** Private key of WireGuard. */
  readonly wireguardKey: string;
  /** States of drivers; made when a driver keeps something. */
  readonly driverStates: string;
  /** Socket on which csi-drivers of the host report themselves. */
  readonly csiSocket: string;
  readonly exports: string;
  readonly dynamicDisks: string;
  readonly persistentDisks: string;
}

export function baseFolderPaths(baseFolder: string): BaseFolder {
  const exports = join(baseFolder, "exports");
  return {
    cacheFile: join(baseFolder, "agent-cache.json"),
    markFile: join(baseFolder, "agent-has-run"),
    runMark: join(baseFolder, "agent-runs.json"),
    runningConfig: join(baseFolder, "running-config.json"),
    wireguardKey: join(baseFolder, "wireguard.key"),
    csiSocket: join(baseFolder, "csi.sock"),
    driverStates: join(baseFolder, "driver-states"),
    // The kernel names mounts, loop devices and working folders by the real path, and they are found by these names.
    exports: existsSync(exports) ? realpathSync(exports) : exports,
    dynamicDisks: join(baseFolder, "data", "dynamic_disks"),
    persistentDisks: join(baseFolder, "data", "persistent_disks"),
  };
}

export async function makeBaseFolder(baseFolder: string): Promise<BaseFolder> {
  const folders = baseFolderPaths(baseFolder);
  try {
    await mkdir(folders.exports, { recursive: true, mode: 0o700 });
    // Restricts the folder, because every process that can reach a socket can write to the disk.
    await chmod(folders.exports, 0o700);
    await mkdir(folders.dynamicDisks, { recursive: true });
    await mkdir(folders.persistentDisks, { recursive: true });
  } catch (error) {
    const text = `base folder ${JSON.stringify(baseFolder)} cannot be used`;
    const noRoom = diskFullError(error, text, baseFolder);
    throw noRoom ?? new UnavailableError(`${text}: ${messageOf(error)}`, { cause: error });
  }
  return baseFolderPaths(baseFolder);
}
