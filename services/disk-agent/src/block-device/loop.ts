import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { messageOf, UnavailableError } from "@diskmesh/domain";

const run = promisify(execFile);

/** Maximum time in ms of a program that changes devices or mounts. */
const PROGRAM_TIMEOUT_MS = 10_000;
const LOOP_TRIES = 5;
const LOOP_RETRY_MS = 200;

/** Runs a program of the host. Throws UnavailableError with its output when it fails. */
export async function runProgram(program: string, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await run(program, [...args], { timeout: PROGRAM_TIMEOUT_MS });
    return stdout.trim();
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new UnavailableError(`${program} failed: ${stderr?.trim() || messageOf(error)}`, { cause: error });
  }
}

/**
 * Makes a block device of a file, and returns its path. Direct I/O, because the device would otherwise keep a second
 * copy of every byte and be slower.
 */
export async function attachLoop(file: string): Promise<string> {
  for (let tries = 1; ; tries += 1)
    try {
      return await runProgram("losetup", ["--direct-io=on", "--find", "--show", file]);
    } catch (error) {
      // Another program may take the free device that losetup has found.
      if (tries === LOOP_TRIES) throw error;
      await sleep(LOOP_RETRY_MS);
    }
}

/** Returns the block devices that are made of the file. */
export async function loopsOf(file: string): Promise<string[]> {
  const names = (await readdir("/sys/block")).filter((name) => name.startsWith("loop"));
  const found = await Promise.all(
    names.map(async (name) => ((await backingFileOf(`/dev/${name}`)) === file ? [`/dev/${name}`] : [])),
  );
  return found.flat();
}

async function backingFileOf(device: string): Promise<string> {
  return (await readFile(`/sys/block/${basename(device)}/loop/backing_file`, "utf8").catch(() => "")).trim();
}

/** Ends a block device whose file was a mount that has ended, after which the kernel names the file "/". */
export async function detachStranded(device: string): Promise<void> {
  if ((await backingFileOf(device)) === "/") await runProgram("losetup", ["--detach", device]);
}

/** Ends the block devices that are made of the file. A device that is still mounted ends with its last user. */
export async function detachLoops(file: string): Promise<void> {
  for (const device of await loopsOf(file))
    try {
      await runProgram("losetup", ["--detach", device]);
    } catch (error) {
      // Its last user may have left meanwhile.
      if ((await loopsOf(file)).includes(device)) throw error;
    }
}
