import { randomUUID } from "node:crypto";
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { chmod, lstat, mkdir, readdir, readFile, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { diskFullError, InvalidStateError } from "@diskmesh/domain";
import { endGroup, listProcesses } from "./process-group.js";

/** A running process's entry in the run folder. */
export interface RunRecord {
  /** The process's own folder, its TMPDIR. */
  readonly folder: string;
  started(groupId: number): void;
  end(): Promise<void>;
}

/** Mark file of the running dispatcher. No run has its name. */
const RUN_MARK = "dispatcher-runs.json";
const GROUP_FILE = "group";
const TEMPORARY = "tmp";

/**
 * Records the running processes. A dispatcher that restarts after a kill finds and kills its predecessor's processes,
 * so that no call of a former director runs. A run's folder is created before its process and is in the process's
 * environment. The process is therefore found even if the predecessor died before it recorded the group.
 */
export class RunFolder {
  private constructor(readonly folder: string) {}

  /**
   * Takes over a folder and kills the processes of its former owner. A folder must have a single dispatcher at a time.
   */
  static async open(folder: string): Promise<RunFolder> {
    await mkdir(folder, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      // A file has the name, which is told below.
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
      throw diskFullError(error, "cannot create executables.runFolder", folder) ?? error;
    });
    const found = await lstat(folder);
    if (!found.isDirectory() || (process.getuid && found.uid !== process.getuid()))
      throw new InvalidStateError(
        `${folder} is not a directory, or belongs to another user: configure another executables.runFolder`,
      );
    await chmod(folder, 0o700);
    const left = (await readdir(folder)).filter((name) => name !== RUN_MARK);
    if (left.length > 0) await endLeftovers(folder, left);
    return new RunFolder(folder);
  }

  get runMark(): string {
    return join(this.folder, RUN_MARK);
  }

  /** Removes the folder if it is empty. Remaining runs are left to the next owner. */
  async stop(): Promise<void> {
    await rmdir(this.folder).catch(() => {});
  }

  // Creates the entry of a run. Synchronous, because three small entries in a local folder take less time than round
  // trips through the thread pool.
  begin(): RunRecord {
    const run = join(this.folder, randomUUID());
    const temporary = join(run, TEMPORARY);
    try {
      mkdirSync(temporary, { recursive: true, mode: 0o700 });
    } catch (error) {
      rmSync(run, { recursive: true, force: true });
      throw error;
    }
    return {
      folder: temporary,
      started: (groupId) => writeFileSync(join(run, GROUP_FILE), String(groupId)),
      end: () => removeRun(run),
    };
  }
}

async function removeRun(run: string): Promise<void> {
  try {
    rmSync(join(run, GROUP_FILE), { force: true });
    rmdirSync(join(run, TEMPORARY));
    rmdirSync(run);
  } catch {
    // The process left files, possibly many.
    await rm(run, { recursive: true, force: true });
  }
}

async function endLeftovers(folder: string, names: readonly string[]): Promise<void> {
  const processes = (await listProcesses()) ?? [];
  const groupOf = new Map(processes.map(({ pid, groupId }) => [pid, groupId]));
  const runOf = new Map<number, string>();
  await Promise.all(
    processes.map(async ({ pid }) => {
      const name = await runInEnvironment(pid, folder);
      if (name !== undefined) runOf.set(pid, name);
    }),
  );
  for (const name of names) {
    const recorded = await recordedGroup(join(folder, name));
    // The environment proves that the process was started here and is no later process with the same id.
    const groups = new Set([...runOf].filter(([, run]) => run === name).map(([pid]) => groupOf.get(pid) as number));
    for (const groupId of groups) if (recorded === undefined || groupId === recorded) await endGroup(groupId);
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

async function recordedGroup(run: string): Promise<number | undefined> {
  const text = await readFile(join(run, GROUP_FILE), "latin1").catch(() => "");
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

async function runInEnvironment(pid: number, folder: string): Promise<string | undefined> {
  const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
  const prefix = `TMPDIR=${folder}/`;
  const entry = environment.split("\0").find((one) => one.startsWith(prefix));
  return entry?.slice(prefix.length).split("/")[0];
}
