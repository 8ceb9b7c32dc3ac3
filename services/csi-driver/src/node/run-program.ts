import { execFile } from "node:child_process";
import { InvalidStateError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import type { RunningProgram } from "../model/slow-work.js";

export interface Ended {
  readonly code: number;
  readonly out: string;
  /** Both outputs, for error messages. */
  readonly text: string;
}

const MAX_OUTPUT_BYTES = 1024 * 1024;
const ENVIRONMENT = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };

/** Packages of the programs that a node may lack. */
const PACKAGES: Readonly<Record<string, string>> = {
  "mkfs.ext4": "e2fsprogs",
  "fsck.ext4": "e2fsprogs",
  resize2fs: "e2fsprogs",
  dumpe2fs: "e2fsprogs",
  "mkfs.xfs": "xfsprogs",
  xfs_growfs: "xfsprogs",
};

/** Programs that have not ended, although some were killed. */
export const runningPrograms = new Set<RunningProgram>();

/** Time for a killed program to end. One that waits for a dead device may not. */
const KILL_MS = 1_000;

/**
 * Runs a program to its end and returns its exit code and output. Kills the program at the timeout, and then throws
 * TimeoutError.
 */
export async function runProgram(program: string, args: readonly string[], timeoutMs: number): Promise<Ended> {
  const options = { env: ENVIRONMENT, timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: MAX_OUTPUT_BYTES } as const;
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(didNotEnd(program, timeoutMs)), timeoutMs + KILL_MS);
    const child = execFile(program, args, options, (error, out, err) => {
      runningPrograms.delete(running);
      clearTimeout(late);
      const code = error === null ? 0 : error.code;
      if (typeof code === "number") resolve({ code, out, text: `${out}${err}`.trim() });
      else reject(failureOf(program, error as NodeJS.ErrnoException & { killed?: boolean }, timeoutMs));
    });
    const running = { program, pid: child.pid ?? 0, startedAtMs: Date.now() };
    runningPrograms.add(running);
  });
}

export function notInstalled(program: string): InvalidStateError {
  return new InvalidStateError(
    `${program} is not installed on this node: install ${PACKAGES[program] ?? "util-linux"}`,
  );
}

function didNotEnd(program: string, timeoutMs: number): TimeoutError {
  return new TimeoutError(`${program} did not end within ${timeoutMs} ms and was killed`);
}

function failureOf(program: string, error: NodeJS.ErrnoException & { killed?: boolean }, timeoutMs: number): Error {
  if (error.code === "ENOENT") return notInstalled(program);
  if (error.killed) return didNotEnd(program, timeoutMs);
  return new UnavailableError(`${program} could not run: ${error.message}`, { cause: error, outcome: "unknown" });
}
