import { spawn } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdir, open, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import * as z from "zod";
import {
  type DaemonFiles,
  DETOUR_NODE,
  DISK_NODE,
  daemonFiles,
  detouredDisk,
  detourNode,
  sessionOfPidFile,
} from "../model/daemon-arguments.js";
import { type FailedRequests, failedRequests } from "../model/daemon-log.js";
import { removeFile } from "../remove-file.js";
import { Qmp } from "./qmp.js";

export const PROGRAM = "qemu-storage-daemon";

/** Maximum time in ms until a started daemon serves. */
const START_TIMEOUT_MS = 10_000;
/** Maximum wait in ms for the end of a killed daemon of a former life of the agent. */
const END_TIMEOUT_MS = 5_000;
const POLL_MS = 2;
/** Time in ms between two looks for the end of a daemon without a control connection, which would tell it at once. */
const SLOW_POLL_MS = 100;
/** Maximum characters of a daemon's output in an error. */
const MAX_OUTPUT_LENGTH = 500;
/** Size in bytes above which a daemon's log is emptied even when it names no failed request. */
const MAX_LOG_BYTES = 64 * 1024;

const nodesSchema = z.array(z.object({ "node-name": z.string(), image: z.object({ "virtual-size": z.number() }) }));

/** A running qemu-storage-daemon of one session. It outlives the agent. */
export class Daemon {
  readonly pid: number;
  readonly files: DaemonFiles;
  /** Resolves once nothing of the process is left: no thread of it, and no system call. */
  readonly gone: Promise<void>;
  readonly #folder: string;
  /** Absent while the daemon has not answered this life of the agent. */
  #qmp: Promise<Qmp> | undefined;
  #isGone = false;

  private constructor(options: {
    pid: number;
    files: DaemonFiles;
    folder: string;
    qmp: Qmp | undefined;
    gone: Promise<void>;
  }) {
    this.pid = options.pid;
    this.files = options.files;
    this.#qmp = options.qmp && Promise.resolve(options.qmp);
    this.gone = options.gone;
    this.#folder = options.folder;
    void this.gone.then(() => {
      this.#isGone = true;
    });
  }

  /**
   * Starts a daemon in the folder, and resolves once it serves. It inherits `fds` as its descriptors from 3. Throws
   * UnavailableError with the daemon's output when it does not serve; nothing of it is left then.
   */
  static async start(options: {
    readonly folder: string;
    readonly sessionNumber: number;
    readonly args: readonly string[];
    readonly fds: readonly number[];
    /** Text of the descriptor file, for a disk of several parts. */
    readonly descriptor?: string | undefined;
    /** Pre-shared key of a remote device, in hex. */
    readonly key?: { readonly identity: string; readonly key: string } | undefined;
    /** Returns why the daemon is to end before it serves; undefined while it is wanted. */
    readonly whyUnwanted?: () => string | undefined;
  }): Promise<Daemon> {
    const { folder, sessionNumber, args, fds, descriptor, key, whyUnwanted } = options;
    const files = daemonFiles(sessionNumber);
    await removeFiles(folder, files);
    if (key !== undefined) await writeKey(join(folder, files.keyFolder), key);
    if (descriptor !== undefined) await writeFile(join(folder, files.descriptor), descriptor, { mode: 0o600 });
    // Appends, so that the log can be emptied under the daemon.
    await using log = await open(join(folder, files.log), "a", 0o600);
    const child = spawn(PROGRAM, args, { cwd: folder, detached: true, stdio: ["ignore", log.fd, log.fd, ...fds] });
    let end: string | undefined;
    const gone = new Promise<void>((resolve) => {
      child.once("error", (error) => {
        end = messageOf(error);
        resolve();
      });
      child.once("exit", (code, signal) => {
        end = `it ended with ${signal ?? `code ${code}`}`;
        resolve();
      });
    });
    child.unref();
    const untilMs = performance.now() + START_TIMEOUT_MS;
    for (;;)
      try {
        const qmp = await Qmp.connect(join(folder, files.qmpSocket));
        return new Daemon({ pid: child.pid ?? 0, files, folder, qmp: qmp.unref(), gone });
      } catch (error) {
        const unwanted = whyUnwanted?.();
        if (end === undefined && unwanted === undefined && performance.now() < untilMs) {
          await sleep(POLL_MS);
          continue;
        }
        const reason = unwanted ?? end ?? "it did not answer";
        child.kill("SIGKILL");
        await gone;
        const output = (await readFile(join(folder, files.log), "utf8").catch(() => "")).slice(-MAX_OUTPUT_LENGTH);
        await removeFiles(folder, files);
        const said = output.trim() === "" ? "" : `: ${JSON.stringify(output.trim())}`;
        throw new UnavailableError(`${PROGRAM} does not serve: ${reason}${said}`, {
          cause: error,
        });
      }
  }

  /**
   * Returns the daemon of a session that a former life of the agent started; undefined when it has none any more. The
   * daemon may be too slow to answer yet.
   */
  static async find(folder: string, sessionNumber: number, diskId: string): Promise<Daemon | undefined> {
    const files = daemonFiles(sessionNumber);
    const pid = await pidOf(folder, files);
    if (pid === undefined || !argumentsOf(pid).some((each) => each.includes(`"name":"${diskId}"`))) return undefined;
    const qmp = await Qmp.connect(join(folder, files.qmpSocket)).catch(() => undefined);
    const gone = qmp === undefined ? untilGoneSlowly(pid) : qmp.ended.then(() => untilGone(pid));
    return new Daemon({ pid, files, folder, qmp: qmp?.unref(), gone });
  }

  /** Executes a command. Throws UnavailableError when the daemon does not answer, has ended or refuses. */
  async execute(command: string, parameters?: object): Promise<unknown> {
    this.#qmp ??= Qmp.connect(join(this.#folder, this.files.qmpSocket)).then((qmp) => qmp.unref());
    const connecting = this.#qmp;
    const qmp = await connecting.catch((error) => {
      if (this.#qmp === connecting) this.#qmp = undefined;
      throw error;
    });
    return qmp.execute(command, parameters);
  }

  /** Ends the agent's control connection. The daemon goes on. */
  leave(): void {
    void this.#qmp?.then((qmp) => qmp.close()).catch(() => undefined);
  }

  /** Returns whether its arguments have the text. */
  wasStartedWith(text: string): boolean {
    return argumentsOf(this.pid).some((each) => each.includes(JSON.stringify(text)));
  }

  /** Returns the size of a node; undefined when the daemon has no such node. */
  async sizeBytes(node: string): Promise<number | undefined> {
    const nodes = nodesSchema.parse(await this.execute("query-named-block-nodes", { flat: true }));
    return nodes.find((each) => each["node-name"] === node)?.image["virtual-size"];
  }

  /** Returns whether all bytes go through the agent: the daemon has no node of a device left. */
  async isDetoured(): Promise<boolean> {
    const nodes = nodesSchema.parse(await this.execute("query-named-block-nodes", { flat: true }));
    const own = [DISK_NODE, DETOUR_NODE];
    return nodes.length === own.length && nodes.every((each) => own.includes(each["node-name"]));
  }

  /** Sends all bytes through the agent from now on. I/O waits meanwhile, and what is in flight ends first. */
  async detour(): Promise<void> {
    if (await this.isDetoured()) return;
    const nodes = nodesSchema.parse(await this.execute("query-named-block-nodes", { flat: true }));
    if (!nodes.some((each) => each["node-name"] === DETOUR_NODE))
      await this.execute("blockdev-add", detourNode(this.files));
    await this.execute("blockdev-reopen", { options: [detouredDisk()] });
    if (!(await this.isDetoured())) throw new UnavailableError("the storage daemon kept a device after its reopen");
  }

  /** Returns the requests that failed since the last call, of any life of the agent; undefined for none. */
  async takeFailures(): Promise<FailedRequests | undefined> {
    const path = join(this.#folder, this.files.log);
    const log = await readFile(path, "utf8").catch(() => "");
    const failed = failedRequests(log);
    if (failed !== undefined || log.length > MAX_LOG_BYTES) await truncate(path);
    return failed;
  }

  /** Kills the daemon. Resolves once nothing of it is left, with the requests that failed since the last look. */
  async kill(): Promise<FailedRequests | undefined> {
    // A number of a process that is gone may be that of another one by now.
    if (!this.#isGone) killNow(this.pid);
    await this.gone;
    const failed = await this.takeFailures();
    await removeFiles(this.#folder, this.files);
    return failed;
  }
}

/**
 * Kills the daemons in a folder whose session is not to be kept, and removes their files once nothing of them is left.
 * Returns the sessions whose daemon ran and has ended. Leaves the files of a daemon that does not end in time.
 */
export async function killDaemons(folder: string, isEnded: (sessionNumber: number) => boolean): Promise<number[]> {
  const numbers = (await readdir(folder)).map(sessionOfPidFile).filter((number) => number !== undefined);
  const killed = await Promise.all(
    numbers.filter(isEnded).map(async (sessionNumber) => {
      const files = daemonFiles(sessionNumber);
      const pid = await pidOf(folder, files);
      if (pid !== undefined) {
        killNow(pid);
        // A process that hangs in the kernel must not hold up the agent. Its lock keeps later sessions waiting.
        await untilGone(pid, performance.now() + END_TIMEOUT_MS);
        if (!isGone(pid)) return [];
      }
      await removeFiles(folder, files);
      return pid === undefined ? [] : [sessionNumber];
    }),
  );
  return [...killed.flat(), ...(await killStrays(folder))];
}

/**
 * Kills the daemons whose folder somebody removed. Nothing can take them over without their sockets, and their clients
 * may wait for them for an hour. Returns their sessions.
 */
async function killStrays(folder: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const strays = pids.filter((pid) => workingFolderOf(pid) === `${folder} (deleted)`);
  const ended = strays.map(async (pid) => {
    const [program = "", ...args] = argumentsOf(pid);
    if (basename(program) !== PROGRAM) return [];
    killNow(pid);
    await untilGone(pid, performance.now() + END_TIMEOUT_MS);
    return args.map(sessionOfPidFile).filter((number) => number !== undefined);
  });
  return (await Promise.all(ended)).flat();
}

/** Returns the process of each running daemon by its session. `names` are the files of the folder. */
export async function daemonSessions(folder: string, names: readonly string[]): Promise<Map<number, number>> {
  const numbers = names.map(sessionOfPidFile).filter((number) => number !== undefined);
  const found = await Promise.all(
    numbers.map(async (number) => [number, await pidOf(folder, daemonFiles(number))] as const),
  );
  return new Map(found.flatMap(([number, pid]) => (pid === undefined ? [] : [[number, pid]])));
}

/** Writes the key as GnuTLS reads it. A file, because arguments and environments can be read by others. */
async function writeKey(folder: string, { identity, key }: { identity: string; key: string }): Promise<void> {
  await mkdir(folder, { mode: 0o700 });
  await writeFile(join(folder, "keys.psk"), `${identity}:${key}\n`, { mode: 0o600 });
}

async function removeFiles(folder: string, { keyFolder, ...files }: DaemonFiles): Promise<void> {
  await Promise.all([
    ...Object.values(files).map((name) => removeFile(join(folder, name))),
    rm(join(folder, keyFolder), { recursive: true, force: true }),
  ]);
}

/** Returns the process in the pid file; undefined when another process has its number by now. */
async function pidOf(folder: string, files: DaemonFiles): Promise<number | undefined> {
  const text = await readFile(join(folder, files.pidFile), "utf8").catch(() => "");
  const pid = Number(/^(\d{1,10})\s*$/.exec(text)?.[1] ?? 0);
  if (pid === 0 || !argumentsOf(pid).includes(files.pidFile)) return undefined;
  return workingFolderOf(pid) === folder ? pid : undefined;
}

function workingFolderOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

function argumentsOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

/** Kills a process; succeeds when it has ended meanwhile. */
function killNow(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function untilGone(pid: number, untilMs = Number.POSITIVE_INFINITY): Promise<void> {
  while (!isGone(pid) && performance.now() < untilMs) await sleep(POLL_MS);
}

/** Does not keep the agent's process alive. */
async function untilGoneSlowly(pid: number): Promise<void> {
  while (!isGone(pid)) await sleep(SLOW_POLL_MS, undefined, { ref: false });
}

/**
 * Returns whether nothing of a process is left. A zombie without other threads is left to whoever reaps it: it has
 * neither descriptors nor system calls.
 */
function isGone(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const isZombie = stat.slice(stat.lastIndexOf(")") + 2).startsWith("Z");
    return isZombie && readdirSync(`/proc/${pid}/task`).length === 1;
  } catch {
    return true;
  }
}
