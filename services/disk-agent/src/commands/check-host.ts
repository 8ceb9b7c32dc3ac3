import { execFile } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { baseFolderPaths } from "../base/base-folder.js";
import type { AgentConfig } from "../base/config.js";
import { whyNoBlockDevices } from "../engines/block-devices.js";
import { parseUdevData, rejectsInLvm } from "../model/host-rules.js";
import { readUdevData } from "./drive-rules.js";
import { findOwnDrives } from "./own-drives.js";

const PROGRAM_TIMEOUT_MS = 10_000;
/** Maximum devices that a warning names. */
const MAX_NAMES = 5;
const RULES_FILE = "59-diskmesh-disks.rules";
const RULES_FOLDERS = ["etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d"];
const MDADM_FILES = ["etc/mdadm/mdadm.conf", "etc/mdadm.conf"];
const INSTALL = "docs/operate/install.md says how";

/** Folder and PATH in which the programs of the host and their files are looked for. */
interface HostPlace {
  readonly root: string;
  readonly path: string;
}

const thisHost: HostPlace = { root: "/", path: `${process.env.PATH ?? ""}:/usr/sbin:/sbin` };

/**
 * Returns a warning for each program of the host that would read, assemble or activate what tenants have written to
 * disks and drives, because its rule is missing or without effect.
 */
export async function hostWarnings(
  config: Pick<AgentConfig, "baseFolder" | "devices" | "discovery">,
  place = thisHost,
): Promise<readonly string[]> {
  const { drives, leftOut } = await findOwnDrives(config);
  const disks = await ownLoops(baseFolderPaths(config.baseFolder).exports);
  const makesDisks = disks.length > 0 || (await whyNoBlockDevices()) === undefined;
  if (!makesDisks && drives.length + leftOut.length === 0) return [];
  const warnings = [
    makesDisks ? warningOfRulesFile(place) : undefined,
    await warningOfUnmarked("disks", disks, `detach and attach them once ${RULES_FILE} is installed`, place),
    await warningOfUnmarked(
      "drives",
      drives,
      "write the output of --drive-rules to /etc/udev/rules.d/61-diskmesh-drives.rules, and run udevadm control --reload && udevadm trigger --settle --subsystem-match=block",
      place,
    ),
    ...leftOut.map((reason) => `a drive of the config is not the agent's: ${reason}`),
    await warningOfLvm(place),
    await warningOfMdadm(place),
    drives.length > 0 ? await warningOfMultipath(place) : undefined,
  ];
  return warnings.filter((warning) => warning !== undefined);
}

interface Marked {
  readonly path: string;
  readonly number: string;
}

/** Returns the loop devices that are disks of this agent. */
async function ownLoops(exportsFolder: string): Promise<Marked[]> {
  const names = (await readdir("/sys/block").catch(() => [])).filter((name) => name.startsWith("loop"));
  const read = (name: string, file: string) => readFile(`/sys/block/${name}/${file}`, "utf8").catch(() => "");
  const loops = await Promise.all(
    names.map(async (name) =>
      (await read(name, "loop/backing_file")).startsWith(`${exportsFolder}/`)
        ? [{ path: `/dev/${name}`, number: (await read(name, "dev")).trim() }]
        : [],
    ),
  );
  return loops.flat();
}

const hasUdev = ({ root }: HostPlace): boolean => existsSync(join(root, "run/udev/control"));

function warningOfRulesFile(place: HostPlace): string | undefined {
  if (!hasUdev(place)) return undefined;
  // The first folder with the file counts; udev takes an empty file for "no rules".
  const file = RULES_FOLDERS.map((folder) => join(place.root, folder, RULES_FILE)).find(existsSync);
  if (file !== undefined && statSync(file).size > 0) return undefined;
  return `udev scans disks: ${file ?? RULES_FILE} is ${file === undefined ? "not installed" : "empty"}. Copy host/${RULES_FILE} of the release to /etc/udev/rules.d, and run udevadm control --reload`;
}

async function warningOfUnmarked(
  kind: string,
  devices: readonly Marked[],
  cure: string,
  place: HostPlace,
): Promise<string | undefined> {
  if (!hasUdev(place)) return undefined;
  const marks = await Promise.all(
    devices.map(async ({ number }) => parseUdevData(await readUdevData(number, place.root)).isMarked),
  );
  const paths = devices.filter((_, index) => marks[index] !== true).map(({ path }) => path);
  if (paths.length === 0) return undefined;
  const more = paths.length > MAX_NAMES ? ` and ${paths.length - MAX_NAMES} more` : "";
  return `udev scans the ${kind} ${paths.slice(0, MAX_NAMES).join(", ")}${more}, for which no rule of diskmesh is in effect: ${cure}`;
}

async function warningOfLvm(place: HostPlace): Promise<string | undefined> {
  const keys = ["devices/global_filter", "devices/use_devicesfile"];
  const text = await outputOf("lvm", ["lvmconfig", "--typeconfig", "full", ...keys], place);
  if (text === undefined) return undefined;
  const usesList = /^use_devicesfile=1/m.test(text) && existsSync(join(place.root, "etc/lvm/devices/system.devices"));
  const filter = text.split("\n").find((line) => line.startsWith("global_filter=")) ?? "";
  if (usesList || rejectsInLvm(filter, ["/dev/loop0", "/dev/diskmesh/loop0"])) return undefined;
  return `LVM activates volumes inside disks and drives: its global_filter does not reject /dev/diskmesh (${filter || "none is set"}). Add the pattern of host/lvm.conf of the release; ${INSTALL}`;
}

async function warningOfMdadm(place: HostPlace): Promise<string | undefined> {
  if (findProgram("mdadm", place) === undefined) return undefined;
  const texts = await Promise.all(
    MDADM_FILES.flatMap((file) => [textOf(join(place.root, file)), textsIn(join(place.root, `${file}.d`))]),
  );
  if (/^auto\s(?:.*\s)?-all\b/im.test(texts.join("\n"))) return undefined;
  return `mdadm assembles arrays inside disks and drives: its configuration lacks "AUTO -all". Name the host's own arrays and install host/mdadm.conf of the release; ${INSTALL}`;
}

async function warningOfMultipath(place: HostPlace): Promise<string | undefined> {
  const text = await outputOf("multipath", ["-t"], place);
  if (text === undefined || /^\s*property\s+"\^?DISKMESH\b/m.test(text)) return undefined;
  return `multipathd takes drives: its blacklist lacks the property DISKMESH. Copy host/multipath.conf of the release to /etc/multipath/conf.d/diskmesh.conf, and run multipathd reconfigure`;
}

const textOf = (file: string): Promise<string> => readFile(file, "utf8").catch(() => "");

async function textsIn(folder: string): Promise<string> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith(".conf"));
  return (await Promise.all(names.map((name) => textOf(join(folder, name))))).join("\n");
}

/** Returns the output of a program of the host; undefined when the host lacks it. A failure gives what it printed. */
async function outputOf(name: string, args: readonly string[], place: HostPlace): Promise<string | undefined> {
  const program = findProgram(name, place);
  if (program === undefined) return undefined;
  const options = { timeout: PROGRAM_TIMEOUT_MS, env: { ...process.env, LVM_SUPPRESS_FD_WARNINGS: "1" } };
  const { stdout } = await promisify(execFile)(program, [...args], options).catch(
    (error) => error as { stdout?: string },
  );
  return stdout ?? "";
}

function findProgram(name: string, { path }: HostPlace): string | undefined {
  return path
    .split(":")
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
}
