import { constants } from "node:fs";
import { open, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { deviceNumber, holderOf } from "@diskmesh/file-lock";
import type { AgentConfig } from "../base/config.js";
import { expandGlob } from "../base/glob.js";
import { agentOf } from "./status.js";

/** A block device that a config makes a device of the mesh. */
export interface OwnDrive {
  readonly path: string;
  /** "major:minor". */
  readonly number: string;
}

export interface OwnDrives {
  readonly drives: readonly OwnDrive[];
  /** Reasons why matching block devices are not the agent's: the host uses them. */
  readonly leftOut: readonly string[];
}

type DriveConfig = Pick<AgentConfig, "baseFolder" | "devices" | "discovery">;

/** Finds the block devices of this host that the config makes devices, except those that the host itself uses. */
export async function findOwnDrives(config: DriveConfig): Promise<OwnDrives> {
  const drives = new Map<string, OwnDrive>();
  const leftOut: string[] = [];
  const agent = await agentOf(config.baseFolder);
  for (const path of await pathsOf(config)) {
    const facts = await stat(path, { bigint: true }).catch(() => undefined);
    if (facts?.isBlockDevice() !== true) continue;
    const number = deviceNumber(facts.rdev);
    if (drives.has(number)) continue;
    const problem = await problemOfOpen(path);
    if (problem === undefined || (agent !== undefined && (await holderOf(facts)) === agent))
      drives.set(number, { path, number });
    else leftOut.push(`${JSON.stringify(path)}: ${problem}${await holdersText(number)}`);
  }
  return { drives: [...drives.values()], leftOut };
}

async function pathsOf({ devices, discovery }: DriveConfig): Promise<string[]> {
  const found = await Promise.all(
    discovery.rules.map(async ({ glob, pools }) => {
      const paths = await expandGlob(glob);
      const sizes = await Promise.all(paths.map(sizeOf));
      return paths.filter((_, index) =>
        pools.some(
          ({ minSizeBytes, maxSizeBytes }) =>
            (sizes[index] ?? 0) >= minSizeBytes && (sizes[index] ?? 0) <= maxSizeBytes,
        ),
      );
    }),
  );
  return [...devices.map(({ path }) => path), ...found.flat()];
}

async function sizeOf(path: string): Promise<number> {
  try {
    const number = deviceNumber((await stat(path, { bigint: true })).rdev);
    return Number(await readFile(`/sys/dev/block/${number}/size`, "utf8")) * 512;
  } catch {
    return 0;
  }
}

/** Returns why the kernel refuses the drive to a new user, as it does for a mounted one; undefined when it is free. */
async function problemOfOpen(path: string): Promise<string | undefined> {
  try {
    await (await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_EXCL)).close();
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EBUSY" ? "the host uses it" : messageOf(error);
  }
}

/** Names the devices that the kernel has made of the drive, such as arrays. */
async function holdersText(number: string): Promise<string> {
  const names = await readdir(join("/sys/dev/block", number, "holders")).catch(() => []);
  return names.length === 0 ? "" : `, by ${names.join(", ")}`;
}
