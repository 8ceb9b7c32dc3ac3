import { type DeviceId, type Logger, messageOf, OutdatedError, type Stamp } from "@diskmesh/domain";
import { counterOf } from "@diskmesh/metrics";
import type { Clock } from "@diskmesh/service";
import { agentMetrics } from "../metrics.js";
import type { Device } from "./device.js";
import type { DeviceTable } from "./device-table.js";
import { type EraseLimits, EraseRate, type LimitedWrite } from "./erase-rate.js";
import type { OpenHandle } from "./open-file.js";
import type { DeviceOutcome } from "./outcome.js";
import type { SessionOrders } from "./session-orders.js";

interface EraseJob {
  readonly sessionNumber: number;
  /** File that is being erased. A device whose present handle is another one may have a swapped drive at its path. */
  readonly handle: OpenHandle | undefined;
  erasedBytes: number;
  state: "running" | "done" | "outdated" | "failed";
  message: string;
}

/** Overwrites devices with zeros. Each device has one job, with its own session; the limits set the speed. */
export class Eraser {
  readonly #devices: DeviceTable;
  readonly #sessions: SessionOrders;
  readonly #zeros: Buffer;
  readonly #rate: EraseRate;
  readonly #log: Logger;
  readonly #jobs = new Map<DeviceId, EraseJob>();

  constructor(options: {
    devices: DeviceTable;
    sessions: SessionOrders;
    clock: Clock;
    chunkBytes: number;
    limits: EraseLimits;
    log: Logger;
  }) {
    this.#devices = options.devices;
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
    deviceId: DeviceId,
    sessionNumber: number,
    stamp: Stamp,
  ): Promise<{ outcome: DeviceOutcome; erasedBytes: number }> {
    const wish = { number: sessionNumber, purpose: "erase" as const, diskId: "", holderHostId: "" };
    const [opened] = await this.#sessions.open([deviceId], wish, stamp);
    if (!opened) throw new Error("opening a session returned no outcome");
    if (opened.outcome !== "done" && opened.outcome !== "already") return { outcome: opened, erasedBytes: 0 };
    const device = this.#devices.get(deviceId);
    const job = this.#join(device, sessionNumber);
    await this.#devices.until(() => (job.state === "running" ? undefined : true));
    const outcomes = { running: "pending", done: "done", outdated: "outdated", failed: "io_error" } as const;
    const outcome = job.state === "failed" && !device.attached ? "not_attached" : outcomes[job.state];
    const { erasedBytes } = job;
    if (outcome !== "pending") return { outcome: { deviceId, outcome, message: job.message, stamp }, erasedBytes };
    const message = `device ${deviceId} is being erased, with ${device.inFlight} operations in flight`;
    return { outcome: { deviceId, outcome, message, stamp, waiting: device.waiting }, erasedBytes };
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

  #join(device: Device, sessionNumber: number): EraseJob {
    const known = this.#jobs.get(device.id);
    const { handle } = device.file;
    if (known?.sessionNumber === sessionNumber) {
      // Returns a running job even if the job must fail. Otherwise a second job could finish before the first job's
      // write in flight lands, and that write would damage a new user's data.
      if (known.state === "running") return known;
      if (known.state === "done" && known.handle === handle) return known;
    }
    const job: EraseJob = { sessionNumber, handle, erasedBytes: 0, state: "running", message: "" };
    this.#jobs.set(device.id, job);
    void this.#run(device, job);
    return job;
  }

  async #run(device: Device, job: EraseJob): Promise<void> {
    this.#log.info({ deviceId: device.id, sessionNumber: job.sessionNumber }, "erase started");
    try {
      await this.#rate.limit((limited) => this.#erase(device, job, limited));
      refuseReopened(device, job);
      job.state = "done";
      this.#log.info({ deviceId: device.id, sessionNumber: job.sessionNumber }, "erase finished");
    } catch (error) {
      job.state = error instanceof OutdatedError ? "outdated" : "failed";
      job.message = messageOf(error);
      this.#log.warn({ deviceId: device.id, sessionNumber: job.sessionNumber, error: job.message }, "erase failed");
    }
    counterOf(agentMetrics.erases).add(1, { outcome: job.state });
    this.#devices.changes.touch();
  }

  async #erase(device: Device, job: EraseJob, limited: LimitedWrite): Promise<void> {
    while (job.erasedBytes < device.sizeBytes) {
      const chunk = this.#zeros.subarray(0, Math.min(this.#zeros.length, device.sizeBytes - job.erasedBytes));
      await limited(chunk.length, () => {
        refuseReopened(device, job);
        return device.write(job.sessionNumber, job.erasedBytes, chunk, { fua: false });
      });
      job.erasedBytes += chunk.length;
      counterOf(agentMetrics.erased).add(chunk.length);
    }
    await limited(0, () => device.flush(job.sessionNumber));
  }
}

/**
 * Throws when the file was reopened during the erase: some zeros went to the former file, so the whole erase must run
 * again.
 */
function refuseReopened(device: Device, job: EraseJob): void {
  if (device.file.handle !== job.handle) throw new Error(`device ${device.id} was detached while it was erased`);
}
