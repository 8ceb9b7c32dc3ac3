import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { open, readFile, truncate, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UnavailableError } from "@diskmesh/domain";
import { removeFile } from "../base/remove-file.js";
import { detachLoops, runProgram } from "../kernel/loop.js";

export const PROGRAM = "nbdfuse";

const START_TIMEOUT_MS = 10_000;
const POLL_MS = 2;
const MAX_OUTPUT_LENGTH = 500;

/** Names of the files of a session's block device, below the folder of the exports. */
function filesOf(folder: string, sessionNumber: number) {
  const name = join(folder, `session-${sessionNumber}`);
  return { image: `${name}.img`, pidFile: `${name}.img.pid`, log: `${name}.img.log` };
}

/** Returns the file that lists the block devices made of a session's image. */
export function loopListOf(folder: string, sessionNumber: number): string {
  return `${imageOf(folder, sessionNumber)}.loops`;
}

/** Returns the file that has the bytes of a session's disk, and of which the block device is made. */
export function imageOf(folder: string, sessionNumber: number): string {
  return filesOf(folder, sessionNumber).image;
}

/** Returns the session of an image file, or of the list of its block devices; undefined for other names. */
export function sessionOfImage(name: string): number | undefined {
  const number = /^session-(\d{1,16})\.img(\.loops)?$/.exec(name)?.[1];
  return number === undefined ? undefined : Number(number);
}

/**
 * Mounts the disk behind an NBD socket of the folder as a file. The process that does it ends with its connection to the
 * socket, and so with the agent.
 */
export async function mountImage(
  folder: string,
  sessionNumber: number,
  socket: { readonly path: string; readonly readOnly: boolean },
): Promise<string> {
  await unmountImage(folder, sessionNumber);
  const files = filesOf(folder, sessionNumber);
  await writeFile(files.image, "", { mode: 0o600 });
  await using log = await open(files.log, "a", 0o600);
  // The socket's name alone, because its path may exceed the kernel's limit.
  const args = ["-P", files.pidFile, ...(socket.readOnly ? ["-r"] : []), files.image, "--unix", basename(socket.path)];
  const child = spawn(PROGRAM, args, { cwd: folder, detached: true, stdio: ["ignore", log.fd, log.fd] });
  child.unref();
  let hasEnded = false;
  for (const event of ["exit", "error"])
    child.once(event, () => {
      hasEnded = true;
    });
  const untilMs = performance.now() + START_TIMEOUT_MS;
  while (!hasEnded && performance.now() < untilMs) {
    if (existsSync(files.pidFile)) return files.image;
    await sleep(POLL_MS);
  }
  child.kill("SIGKILL");
  const output = (await readFile(files.log, "utf8").catch(() => "")).trim().slice(-MAX_OUTPUT_LENGTH);
  await unmountImage(folder, sessionNumber);
  throw new UnavailableError(`${PROGRAM} does not serve: ${JSON.stringify(output)}`);
}

/** Empties the log, which gets a line for each failed request. */
export async function emptyLog(folder: string, sessionNumber: number): Promise<void> {
  await truncate(filesOf(folder, sessionNumber).log);
}

/** Returns whether the disk is mounted and its process runs. */
export async function isMounted(folder: string, sessionNumber: number): Promise<boolean> {
  return (await isMountPoint(imageOf(folder, sessionNumber))) && (await isServed(folder, sessionNumber));
}

/** Returns whether the process runs that serves the mount of the disk. */
export async function isServed(folder: string, sessionNumber: number): Promise<boolean> {
  const { image, pidFile } = filesOf(folder, sessionNumber);
  const pid = (await readFile(pidFile, "utf8").catch(() => "")).trim();
  // Another process may have the number by now.
  const args = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return pid !== "" && args.split("\0").includes(image);
}

/**
 * Returns whether a file system is mounted on the file. Does not ask the file system, because nbdfuse answers nothing
 * while all its threads wait for I/O, perhaps for that of an agent that starts.
 */
async function isMountPoint(file: string): Promise<boolean> {
  const mounts = await readFile("/proc/self/mountinfo", "utf8");
  // The kernel writes some characters as octal numbers.
  const unescaped = (path: string) =>
    path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
  return mounts.split("\n").some((line) => unescaped(line.split(" ")[4] ?? "") === file);
}

/** Ends the block devices, the mount and its process, as far as they exist. */
export async function unmountImage(folder: string, sessionNumber: number): Promise<void> {
  const { image, pidFile, log } = filesOf(folder, sessionNumber);
  if (await isMountPoint(image)) {
    await detachLoops(image);
    // Lazily, because a block device that is mounted still uses the file.
    await runProgram("umount", ["--lazy", image]).catch(() => undefined);
  }
  await Promise.all([image, log, pidFile].map(removeFile));
}
