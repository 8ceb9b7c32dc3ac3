import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { isJsonObject, type JsonObject, messageOf } from "@diskmesh/domain";
import type { DriverStates } from "@diskmesh/driver/host";

/**
 * Returns the states of the host's drivers, a file each in `folder`. The host has checked a driver's name, so it is a
 * file name.
 */
export function driverStateFiles(folder: string): DriverStates {
  const fileOf = (driver: string): string => join(folder, `${driver}.json`);
  return {
    read: async (driver) => {
      const file = fileOf(driver);
      try {
        const state: unknown = JSON.parse(await readFile(file, "utf8"));
        if (isJsonObject(state)) return state;
        throw new TypeError("it is no JSON object");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
        throw new Error(
          `the state of the driver cannot be read: ${file}: ${messageOf(error)}; restore or delete the file`,
        );
      }
    },
    write: async (driver, state: JsonObject) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await replaceFile(fileOf(driver), JSON.stringify(state));
    },
  };
}
