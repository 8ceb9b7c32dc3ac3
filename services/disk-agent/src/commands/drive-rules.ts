import { readFile, readlink } from "node:fs/promises";
import { basename } from "node:path";
import type { AgentConfig } from "../base/config.js";
import { driveRules, lastingLink, type NamedDrive, parseUdevData } from "../model/host-rules.js";
import { findOwnDrives, type OwnDrive } from "./own-drives.js";

/** Prints udev rules that keep the host's programs off the drives of the config. */
export async function printDriveRules(config: AgentConfig): Promise<void> {
  process.stdout.write(await driveRulesOf(config));
}

/** Returns what `--drive-rules` prints. */
export async function driveRulesOf(config: AgentConfig): Promise<string> {
  const { drives, leftOut } = await findOwnDrives(config);
  return driveRules(await Promise.all(drives.map(named)), leftOut);
}

/** Returns a name of the drive that is the same after a restart of the host, where it has one. */
async function named({ path, number }: OwnDrive): Promise<NamedDrive> {
  if (path.startsWith("/dev/disk/")) return { path, name: path.slice("/dev/".length), isLink: true };
  const link = lastingLink(parseUdevData(await readUdevData(number)).links);
  if (link !== undefined) return { path, name: link, isLink: true };
  return { path, name: basename(await readlink(`/sys/dev/block/${number}`)), isLink: false };
}

/** Returns udev's record of a block device; empty when udev has none. */
export function readUdevData(number: string, root = "/"): Promise<string> {
  return readFile(`${root}/run/udev/data/b${number}`, "utf8").catch(() => "");
}
