import { type DeviceId, type Logger, UnavailableError } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import type { DeviceProblem } from "./device-problem.js";
import type { FileLending, LentFile, Retired } from "./file-lending.js";
import type { Waiting } from "./in-flight.js";

/** Session number of a process of which the agent knows only that it has the device. Lower than every session. */
const UNKNOWN_SESSION = 0;

interface BorrowerOptions {
  readonly deviceId: DeviceId;
  readonly retired: Retired;
  readonly changes: Changes<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * The process outside the agent that has a device, if there is one. It may live longer than the agent. A session is
 * granted only once no process of a lower one is left.
 */
export class Borrower {
  readonly #options: BorrowerOptions;
  #sessionNumber: number | undefined;
  #sinceMs = 0;
  #problem: DeviceProblem | undefined;

  constructor(options: BorrowerOptions) {
    this.#options = options;
  }

  get isThere(): boolean {
    return this.#sessionNumber !== undefined;
  }

  /** Session of the process; undefined without one. */
  get sessionNumber(): number | undefined {
    return this.#sessionNumber;
  }

  isGoneBelow(sessionNumber: number): boolean {
    return this.#sessionNumber === undefined || this.#sessionNumber >= sessionNumber;
  }

  /** Returns for how long the process of a lower session has had the device; undefined without one. */
  waitingBelow(sessionNumber: number): Waiting | undefined {
    if (this.isGoneBelow(sessionNumber)) return undefined;
    return { forMs: this.#options.clock.monotonicMs() - this.#sinceMs, inFlightOperations: 1 };
  }

  /**
   * Lends the device to a process of the session. The caller notes with `leave` that nothing of the process is left.
   * Throws UnavailableError while another process has the device.
   */
  lend(sessionNumber: number, lending: FileLending | undefined, deviceOffsetBytes: number): LentFile {
    const { deviceId, retired } = this.#options;
    const lent = lending?.lend(deviceOffsetBytes, retired);
    if (lent === undefined)
      throw new UnavailableError(`device ${deviceId} cannot be lent to a process: another process still has it`, {
        about: { device_id: deviceId },
      });
    this.enter(sessionNumber);
    return lent;
  }

  /** Notes that a process of the session has the device, which a former life of the agent lent it. */
  enter(sessionNumber: number): void {
    this.#sessionNumber = sessionNumber;
    this.#sinceMs = this.#options.clock.monotonicMs();
  }

  /** Notes that the process is being ended, from when on a grant waits for it. */
  noteKill(): void {
    this.#sinceMs = this.#options.clock.monotonicMs();
  }

  /** Problem of the process's I/O as of the last look; undefined for none. */
  get problem(): DeviceProblem | undefined {
    return this.#problem;
  }

  noteProblem(message: string | undefined): void {
    this.#problem = message === undefined ? undefined : { level: "ERROR", message };
  }

  /** Notes that nothing of the session's process is left, or that it is retired. */
  leave(sessionNumber: number): void {
    if (this.#sessionNumber !== sessionNumber) return;
    this.#sessionNumber = undefined;
    this.#problem = undefined;
    this.#options.changes.touch();
  }

  /** Ends a process that has the device although the agent knows of none: a former life of the agent left it. */
  endStray(lending: FileLending | undefined, deviceOffsetBytes: number): void {
    const { deviceId, retired, log } = this.#options;
    if (this.isThere || !lending?.isLent(deviceOffsetBytes, retired)) return;
    this.enter(UNKNOWN_SESSION);
    void lending
      .endBorrowers(deviceOffsetBytes, retired, {
        kill: (pid) => log.warn({ deviceId, pid }, "process of an ended session killed"),
        stuck: (why) => log.error({ deviceId, reason: why }, "process of an ended session still has the device"),
      })
      .then(
        () => this.leave(UNKNOWN_SESSION),
        (error) => log.error({ deviceId, error: String(error) }, "process of an ended session not ended"),
      );
  }
}
