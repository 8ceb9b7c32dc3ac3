import { type Logger, messageOf, OutdatedError, type Stamp } from "@diskmesh/domain";
import { counterOf } from "@diskmesh/metrics";
import type { Clock } from "@diskmesh/service";
import { agentMetrics } from "../base/metrics.js";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import type { OpenHandle } from "../files/open-file.js";
import { type DeviceRun, describeRun, nameOfRun } from "../model/runs.js";
import { hasHolder } from "../model/sessions.js";
import { type EraseLimits, EraseRate, type LimitedWrite } from "./erase-rate.js";
import type { SessionOrders } from "./session-orders.js";

interface EraseJob {
  readonly run: DeviceRun;
  readonly sessionNumber: number;
  /** File that is being erased. A device whose present handle is another one may have a swapped drive at its path. */
  readonly handle: OpenHandle | undefined;
  erasedBytes: number;
  state: "running" | "done" | "outdated" | "failed";
  message: string;
}

/**
 * Overwrites runs with zeros. Each run has one job, with its own session; the limits set the speed. An erase yields while
 * a disk on its drive has a holder.
 */
export class Eraser {
  readonly #devices: DeviceTable;
  readonly #ledger: Pick<Ledger, "memory">;
  readonly #sessions: SessionOrders;
  readonly #zeros: Buffer;
  readonly #rate: EraseRate;
  readonly #log: Logger;
  /** Jobs by the name of their run. */
  readonly #jobs = new Map<string, EraseJob>();

  constructor(options: {
    devices: DeviceTable;
    ledger: Pick<Ledger, "memory">;
    sessions: SessionOrders;
    clock: Clock;
    chunkBytes: number;
    limits: EraseLimits;
    log: Logger;
  }) {
    this.#devices = options.devices;
    this.#ledger = options.ledger;
    this.#sessions = options.sessions;
    this.#zeros = Buffer.alloc(options.chunkBytes);
    this.#rate = new EraseRate(options.limits, options.clock);
    this.#log = options.log;
  }

  /**
   * Starts an erase, or joins the running one of the same session. Returns when it is done, or after the answer
   * timeout.
   */
  async erase(
    run: DeviceRun,
    sessionNumber: number,
    stamp: Stamp,
  ): Promise<{ outcome: DeviceOutcome; erasedBytes: number }> {
    const wish = { number: sessionNumber, purpose: "erase" as const, diskId: "", holderHostId: "" };
    const [opened] = await this.#sessions.open([run], wish, stamp);
    if (!opened) throw new Error("opening a session returned no outcome");
    if (opened.outcome !== "done" && opened.outcome !== "already") return { outcome: opened, erasedBytes: 0 };
    const device = this.#devices.get(run.deviceId);
    const job = this.#join(device, run, sessionNumber);
    await this.#devices.until(() => (job.state === "running" ? undefined : true));
    const outcomes = { running: "pending", done: "done", outdated: "outdated", failed: "io_error" } as const;
    const outcome = job.state === "failed" && !device.attached ? "not_attached" : outcomes[job.state];
    const { erasedBytes } = job;
    if (outcome !== "pending") return { outcome: { ...run, outcome, message: job.message, stamp }, erasedBytes };
    const message = `${describeRun(run)} is being erased, with ${device.inFlight} operations in flight`;
    return { outcome: { ...run, outcome, message, stamp, waiting: device.waiting }, erasedBytes };
  }

  /** Changes the bytes per second of all erases together. */
  setRate(maxBytesPerSecond: number): void {
    this.#rate.set(maxBytesPerSecond);
  }

  /** Number of erases that have not ended. */
  get running(): number {
    return [...this.#jobs.values()].filter(({ state }) => state === "running").length;
  }

  /** Ends each job after its current chunk. */
  stop(): void {
    this.#rate.stop();
  }

  #join(device: Device, run: DeviceRun, sessionNumber: number): EraseJob {
    const name = nameOfRun(run);
    const known = this.#jobs.get(name);
    const { handle } = device.file;
    if (known?.sessionNumber === sessionNumber) {
      // Returns a running job even if the job must fail. Otherwise a second job could finish before the first job's
      // write in flight lands, and that write would damage a new user's data.
      if (known.state === "running") return known;
      if (known.state === "done" && known.handle === handle) return known;
    }
    const job: EraseJob = { run, sessionNumber, handle, erasedBytes: 0, state: "running", message: "" };
    this.#jobs.set(name, job);
    void this.#run(device, job);
    return job;
  }

  async #run(device: Device, job: EraseJob): Promise<void> {
    const about = { ...job.run, sessionNumber: job.sessionNumber };
    this.#log.info(about, "erase started");
    try {
      await this.#rate.limit(
        (limited) => this.#erase(device, job, limited),
        () => this.#isInUse(device),
      );
      refuseReopened(device, job);
      job.state = "done";
      this.#log.info(about, "erase finished");
    } catch (error) {
      job.state = error instanceof OutdatedError ? "outdated" : "failed";
      job.message = messageOf(error);
      this.#log.warn({ ...about, error: job.message }, "erase failed");
    }
    counterOf(agentMetrics.erases).add(1, { outcome: job.state });
    this.#devices.changes.touch();
  }

  /** Returns whether a disk on the device's drive has a holder, on whatever device of the drive. */
  #isInUse({ file }: Device): boolean {
    const onDrive = this.#devices.all().filter((each) => each.file === file);
    return onDrive.some(({ id }) => hasHolder(this.#ledger.memory, id));
  }

  async #erase(device: Device, job: EraseJob, limited: LimitedWrite): Promise<void> {
    const { run, sessionNumber } = job;
    const sizeBytes = device.checkAccess(sessionNumber, run.offsetBytes);
    while (job.erasedBytes < sizeBytes) {
      const chunk = this.#zeros.subarray(0, Math.min(this.#zeros.length, sizeBytes - job.erasedBytes));
      await limited(chunk.length, () => {
        refuseReopened(device, job);
        return device.write(sessionNumber, run.offsetBytes + job.erasedBytes, chunk, { fua: false });
      });
      job.erasedBytes += chunk.length;
      counterOf(agentMetrics.erased).add(chunk.length);
    }
    await limited(0, () => device.flush(sessionNumber, run.offsetBytes));
  }
}

/**
 * Throws when the file was reopened during the erase: some zeros went to the former file, so the whole erase must run
 * again.
 */
function refuseReopened(device: Device, job: EraseJob): void {
  if (device.file.handle !== job.handle) throw new Error(`device ${device.id} was detached while it was erased`);
}
