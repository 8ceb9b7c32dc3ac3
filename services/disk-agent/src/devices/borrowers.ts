import { type DeviceId, type Logger, UnavailableError } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import { contains, overlaps, type Run } from "../model/runs.js";
import type { DeviceProblem } from "./device-problem.js";
import type { FileLending, LentFile, Retired } from "./file-lending.js";
import type { Waiting } from "./in-flight.js";

/** Session number of a process of which the agent knows only that it has the device. Lower than every session. */
const UNKNOWN_SESSION = 0;

interface BorrowersOptions {
  readonly deviceId: DeviceId;
  readonly retired: Retired;
  readonly changes: Changes<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Borrower {
  readonly sessionNumber: number;
  readonly run: Run;
  sinceMs: number;
  problem?: DeviceProblem | undefined;
}

/**
 * The processes outside the agent that have runs of a device. They may live longer than the agent. A session is granted
 * only once no process of a lower one has any byte of its run.
 */
export class Borrowers {
  readonly #options: BorrowersOptions;
  /** Processes by the offset of their run. */
  readonly #all = new Map<number, Borrower>();

  constructor(options: BorrowersOptions) {
    this.#options = options;
  }

  get areThere(): boolean {
    return this.#all.size > 0;
  }

  /** Sessions of the processes; 0 for one of which the session is not known. */
  get sessions(): readonly number[] {
    return [...this.#all.values()].map(({ sessionNumber }) => sessionNumber);
  }

  areGoneBelow(sessionNumber: number, run: Run): boolean {
    return this.#below(sessionNumber, run) === undefined;
  }

  /** Returns for how long the process of a lower session has had bytes of the run; undefined without one. */
  waitingBelow(sessionNumber: number, run: Run): Waiting | undefined {
    const borrower = this.#below(sessionNumber, run);
    if (borrower === undefined) return undefined;
    return { forMs: this.#options.clock.monotonicMs() - borrower.sinceMs, inFlightOperations: 1 };
  }

  #below(sessionNumber: number, run: Run): Borrower | undefined {
    for (const each of this.#all.values())
      if (each.sessionNumber < sessionNumber && overlaps(each.run, run)) return each;
    return undefined;
  }

  /**
   * Lends a run to a process of the session. The caller notes with `leave` that nothing of the process is left. Throws
   * UnavailableError while another process has the run.
   */
  lend(sessionNumber: number, run: Run, lending: FileLending | undefined, deviceOffsetBytes: number): LentFile {
    const { deviceId, retired } = this.#options;
    const lent = lending?.lend(deviceOffsetBytes + run.offsetBytes, retired);
    if (lent === undefined)
      throw new UnavailableError(`device ${deviceId} cannot be lent to a process: another process still has it`, {
        about: { device_id: deviceId },
      });
    this.enter(sessionNumber, run);
    return lent;
  }

  /** Notes that a process of the session has the run, which a former life of the agent lent it. */
  enter(sessionNumber: number, run: Run): void {
    this.#all.set(run.offsetBytes, { sessionNumber, run, sinceMs: this.#options.clock.monotonicMs() });
  }

  /** Notes that the process of the session is being ended, from when on a grant waits for it. */
  noteKill(sessionNumber: number, offsetBytes: number): void {
    const borrower = this.#of(sessionNumber, offsetBytes);
    if (borrower !== undefined) borrower.sinceMs = this.#options.clock.monotonicMs();
  }

  /** Problem of a process's I/O as of the last look; undefined for none. */
  get problem(): DeviceProblem | undefined {
    for (const { problem } of this.#all.values()) if (problem !== undefined) return problem;
    return undefined;
  }

  noteProblem(sessionNumber: number, offsetBytes: number, message: string | undefined): void {
    const borrower = this.#of(sessionNumber, offsetBytes);
    if (borrower !== undefined) borrower.problem = message === undefined ? undefined : { level: "ERROR", message };
  }

  /** Notes that nothing of the session's process is left, or that it is retired. */
  leave(sessionNumber: number, offsetBytes: number): void {
    const borrower = this.#of(sessionNumber, offsetBytes);
    if (borrower === undefined) return;
    this.#all.delete(borrower.run.offsetBytes);
    this.#options.changes.touch();
  }

  #of(sessionNumber: number, offsetBytes: number): Borrower | undefined {
    for (const each of this.#all.values())
      if (each.sessionNumber === sessionNumber && contains(each.run, offsetBytes)) return each;
    return undefined;
  }

  /**
   * Ends processes that have one of the runs, or the device, although the agent knows of none: a former life of the agent
   * left them. Until then each may have any byte from its run on.
   */
  endStrays(runs: readonly Run[], lending: FileLending | undefined, deviceOffsetBytes: number): void {
    const starts = new Set([0, ...runs.map(({ offsetBytes }) => offsetBytes)]);
    for (const at of starts) this.#endStray(at, lending, deviceOffsetBytes);
  }

  #endStray(offsetBytes: number, lending: FileLending | undefined, deviceOffsetBytes: number): void {
    const { deviceId, retired, log } = this.#options;
    const at = deviceOffsetBytes + offsetBytes;
    if (this.#all.has(offsetBytes) || !lending?.isLent(at, retired)) return;
    const run = { offsetBytes, sizeBytes: 0 };
    this.enter(UNKNOWN_SESSION, run);
    void lending
      .endBorrowers(at, retired, {
        kill: (pid) => log.warn({ deviceId, pid }, "process of an ended session killed"),
        stuck: (why) => log.error({ deviceId, reason: why }, "process of an ended session still has the device"),
      })
      .then(
        () => this.leave(UNKNOWN_SESSION, offsetBytes),
        (error) => log.error({ deviceId, error: String(error) }, "process of an ended session not ended"),
      );
  }
}
