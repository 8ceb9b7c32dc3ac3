import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { messageOf, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { lastLogLine, MeshProcess, type ProcessEnd, type ProcessSpec } from "./mesh-process.js";

/** Timeout in ms, long enough for an agent that waits for its registration on a busy machine. */
const READY_TIMEOUT_MS = 90_000;
const STOP_GRACE_MS = 10_000;
const RESTART_DELAY_MIN_MS = 200;
const RESTART_DELAY_MAX_MS = 5000;
const STEADY_AFTER_MS = 30_000;

/** A program of the mesh with its readiness check. */
export interface Member extends ProcessSpec {
  /** Resolves when the program serves. */
  readonly waitUntilReady: (timeoutMs: number, signal: AbortSignal) => Promise<void>;
  /** Command that ends what outlives the program. It runs once the mesh has stopped, or its launcher was killed. */
  readonly lastCommand?: readonly string[];
}

/**
 * The processes of the mesh. Stops them in reverse order of their start. A process that ends unexpectedly is reported
 * and restarted.
 */
export class Mesh {
  /** Number of restarts after an unexpected end. */
  restarts = 0;
  private readonly groups: Supervised[][] = [];
  private readonly reaper = startReaper();

  /** `report` is called with one line of text for each event. */
  constructor(private readonly report: (line: string) => void) {}

  /** Starts members and resolves when all of them are ready. */
  async start(members: readonly Member[], signal: AbortSignal): Promise<void> {
    const group = members.map((member) => new Supervised(member, this.reaper, (line) => this.noteRestart(line)));
    this.groups.push(group);
    await Promise.all(group.map((supervised) => supervised.start(signal)));
  }

  /** Stops everything; does not throw. */
  async stop(): Promise<void> {
    for (const group of this.groups.reverse()) {
      const stopped = await Promise.all(group.map((supervised) => supervised.stop()));
      for (const [index, clean] of stopped.entries())
        if (!clean) this.report(`${group[index]?.name} did not stop within ${STOP_GRACE_MS / 1000} s and was killed`);
    }
    await this.reaper.end();
  }

  get processCount(): number {
    return this.groups.flat().length;
  }

  /** Returns the process id of a member, for tests that kill it. */
  pidOf(name: string): number | undefined {
    return this.groups.flat().find((supervised) => supervised.name === name)?.pid;
  }

  private noteRestart(line: string): void {
    this.restarts += 1;
    this.report(line);
  }
}

class Supervised {
  private process: MeshProcess | undefined;
  private readonly stopping = new AbortController();
  private watching: Promise<void> | undefined;

  constructor(
    private readonly member: Member,
    private readonly reaper: Reaper,
    private readonly report: (line: string) => void,
  ) {}

  get name(): string {
    return this.member.name;
  }

  get pid(): number | undefined {
    return this.process?.pid;
  }

  async start(signal: AbortSignal): Promise<void> {
    const process = this.run();
    const giveUp = new AbortController();
    const readiness = this.untilReady(AbortSignal.any([signal, giveUp.signal]));
    const end = await Promise.race([readiness, process.ended]);
    giveUp.abort();
    if (end) throw this.startFailure(end);
    // Only ready processes are watched, because a process that never became ready is not restarted.
    this.watching = this.watch(process);
  }

  async stop(): Promise<boolean> {
    this.stopping.abort();
    const clean = (await this.process?.stop(STOP_GRACE_MS)) ?? true;
    await this.watching;
    return clean;
  }

  private run(): MeshProcess {
    const process = new MeshProcess(this.member);
    this.process = process;
    this.reaper.add(process.pid, this.member.lastCommand);
    void process.ended.then(() => this.reaper.remove(process.pid));
    return process;
  }

  private async watch(first: MeshProcess): Promise<void> {
    let process = first;
    let delayMs = RESTART_DELAY_MIN_MS;
    for (;;) {
      const startedMs = performance.now();
      const end = await process.ended;
      if (this.stopping.signal.aborted) return;
      if (performance.now() - startedMs > STEADY_AFTER_MS) delayMs = RESTART_DELAY_MIN_MS;
      this.report(`${this.name} ended (${describeEnd(end)}); starting it again in ${delayMs / 1000} s`);
      await sleep(delayMs, undefined, { signal: this.stopping.signal }).catch(() => {});
      if (this.stopping.signal.aborted) return;
      delayMs = Math.min(delayMs * 2, RESTART_DELAY_MAX_MS);
      process = this.run();
    }
  }

  private async untilReady(signal: AbortSignal): Promise<undefined> {
    try {
      await this.member.waitUntilReady(READY_TIMEOUT_MS, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const { logFile } = this.member;
      throw new TimeoutError(`${this.name}: ${messageOf(error)}; it logged last: ${lastLogLine(logFile)} (${logFile})`);
    }
  }

  private startFailure(end: ProcessEnd): UnavailableError {
    if ((end.error as NodeJS.ErrnoException | undefined)?.code === "ENOENT")
      return new UnavailableError(`${this.member.file} is not on PATH: install it (see README.md), then try again`);
    return new UnavailableError(
      `${this.name} did not start (${describeEnd(end)}): ${lastLogLine(this.member.logFile)} ` +
        `(log: ${this.member.logFile}; to start from nothing: --fresh)`,
    );
  }
}

function describeEnd({ code, signal, error }: ProcessEnd): string {
  return error?.message ?? signal ?? `exit code ${code}`;
}

interface Reaper {
  add(pid: number | undefined, lastCommand?: readonly string[]): void;
  remove(pid: number | undefined): void;
  /** Resolves once the last commands have ended. */
  end(): Promise<void>;
}

function startReaper(): Reaper {
  const file = fileURLToPath(new URL("./reaper.js", import.meta.url));
  const child = spawn(process.execPath, [file], { detached: true, stdio: ["pipe", "ignore", "inherit"] });
  child.unref();
  const ended = new Promise((resolve) => {
    for (const event of ["exit", "error"]) child.once(event, resolve);
  });
  // The reaper may have been killed, and writing to it fails then.
  child.stdin.on("error", () => {});
  const send = (sign: string, pid: number | undefined) => pid !== undefined && child.stdin.write(`${sign}${pid}\n`);
  return {
    add: (pid, lastCommand) => {
      send("+", pid);
      if (lastCommand !== undefined) child.stdin.write(`!${JSON.stringify(lastCommand)}\n`);
    },
    remove: (pid) => void send("-", pid),
    end: async () => {
      child.ref();
      child.stdin.end();
      await ended;
    },
  };
}
