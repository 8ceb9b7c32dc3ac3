import {
  type DeviceId,
  type DiskId,
  type HostId,
  InvalidArgumentError,
  type Logger,
  messageOf,
  OutdatedError,
  type Stamp,
} from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { OpenHandle } from "../devices/open-file.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import type { OpenPart } from "../exports/open-part.js";
import { placeOf } from "../model/exports.js";
import type { ExportDevice } from "../model/memory.js";
import { nameOfRun } from "../model/runs.js";
import { CopyError, type CopyLimits, copyBytes } from "./copy-bytes.js";
import { Pace } from "./pace.js";

export interface CopyOrder {
  readonly diskId: DiskId;
  /** Session on both devices. */
  readonly sessionNumber: number;
  /** Device to read. */
  readonly source: ExportDevice;
  /** Device of this host to write. */
  readonly deviceId: DeviceId;
  /** First byte to write. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  /** 0 for no limit. */
  readonly bytesPerSecond: number;
}

interface CopyJob {
  readonly sessionNumber: number;
  readonly sizeBytes: number;
  /** Source as the last request named it. */
  source: ExportDevice;
  readonly pace: Pace;
  /** File that is being written. A device whose present handle is another one may have a swapped drive at its path. */
  readonly handle: OpenHandle | undefined;
  copiedBytes: number;
  state: "running" | "done" | "outdated" | "failed";
  message: string;
}

/** Copies runs to devices of this host. Each target has one job; nothing of it survives the agent. */
export class Copier {
  readonly #devices: DeviceTable;
  readonly #hostId: HostId;
  readonly #openPart: OpenPart;
  readonly #clock: Clock;
  readonly #limits: CopyLimits;
  readonly #log: Logger;
  /** Jobs by the name of the run that they write. */
  readonly #jobs = new Map<string, CopyJob>();
  readonly #stopping = new AbortController();

  constructor(options: {
    devices: DeviceTable;
    hostId: HostId;
    openPart: OpenPart;
    clock: Clock;
    limits: CopyLimits;
    log: Logger;
  }) {
    this.#devices = options.devices;
    this.#hostId = options.hostId;
    this.#openPart = options.openPart;
    this.#clock = options.clock;
    this.#limits = options.limits;
    this.#log = options.log;
  }

  /** Starts a copy, or joins the running one. Returns when it is done, or after the answer timeout. */
  async copy(order: CopyOrder, stamp: Stamp): Promise<{ outcome: DeviceOutcome; copiedBytes: number }> {
    const { deviceId, offsetBytes, sizeBytes } = order;
    const device = this.#devices.find(deviceId);
    const answer = (outcome: DeviceOutcome["outcome"], message: string, copiedBytes = 0) => ({
      outcome: { deviceId, offsetBytes, sizeBytes, outcome, message, stamp },
      copiedBytes,
    });
    if (device === undefined) return answer("unknown_device", `host ${this.#hostId} has no device ${deviceId}`);
    let heldBytes: number;
    try {
      heldBytes = device.checkAccess(order.sessionNumber, offsetBytes);
    } catch (error) {
      return answer(whyNoAccess(device, error), messageOf(error));
    }
    if (sizeBytes > heldBytes)
      throw new InvalidArgumentError(
        `device ${deviceId} holds ${heldBytes} bytes from byte ${offsetBytes}, but ${sizeBytes} are to be copied to it`,
      );
    const job = this.#join(device, order);
    await this.#devices.until(() => (job.state === "running" ? undefined : true));
    const outcomes = { running: "pending", done: "done", outdated: "outdated", failed: "io_error" } as const;
    return answer(outcomes[job.state], job.message, job.copiedBytes);
  }

  /** Ends each job after its current chunks. */
  stop(): void {
    this.#stopping.abort(new Error("the agent is stopping"));
  }

  #join(device: Device, order: CopyOrder): CopyJob {
    const { sessionNumber, sizeBytes, source, bytesPerSecond } = order;
    const name = nameOfRun(order);
    const known = this.#jobs.get(name);
    const { handle } = device.file;
    if (known?.sessionNumber === sessionNumber) {
      if (placeOf(known.source) !== placeOf(source) || known.sizeBytes !== sizeBytes)
        throw new OutdatedError(
          `session ${sessionNumber} of device ${device.id} copies ${known.sizeBytes} bytes of device ${known.source.deviceId}: use a new session number`,
        );
      known.pace.set(bytesPerSecond);
      if (source.sessionKey !== "") known.source = source;
      // Returns a running job even if the job must fail. Otherwise a write of the first job that is in flight could land
      // after the second job is done.
      if (known.state === "running") return known;
      if (known.state === "done" && known.handle === handle) return known;
    }
    const pace = new Pace(this.#clock, bytesPerSecond);
    const start = { copiedBytes: 0, state: "running" as const, message: "" };
    const job: CopyJob = { sessionNumber, sizeBytes, source, pace, handle, ...start };
    this.#jobs.set(name, job);
    void this.#run(device, order, job);
    return job;
  }

  async #run(device: Device, order: CopyOrder, job: CopyJob): Promise<void> {
    const { diskId, sessionNumber } = order;
    const about = { diskId, sessionNumber, deviceId: device.id, sourceId: order.source.deviceId };
    this.#log.info(about, "copy started");
    try {
      await this.#copy(order, job);
      // Some bytes went to the former file, so the whole copy must run again.
      if (device.file.handle !== job.handle) throw new Error(`device ${device.id} was detached while it was written`);
      job.state = "done";
      this.#log.info(about, "copy finished");
    } catch (error) {
      const cause = error instanceof CopyError ? error.cause : error;
      job.state = cause instanceof OutdatedError ? "outdated" : "failed";
      job.message = messageOf(error);
      this.#log.warn({ ...about, error: job.message }, "copy failed");
    }
    this.#devices.changes.touch();
  }

  async #copy(order: CopyOrder, job: CopyJob): Promise<void> {
    const { deviceId, offsetBytes, sizeBytes } = order;
    const own = { deviceId, hostId: this.#hostId, offsetBytes, sizeBytes, blockAddress: "", sessionKey: "" };
    const target = this.#openPart(own, order);
    const source = this.#openPart(order.source, order, () => job.source);
    try {
      await copyBytes({
        source,
        target,
        sizeBytes,
        limits: this.#limits,
        pace: job.pace,
        signal: this.#stopping.signal,
        onCopied: (copiedBytes) => {
          job.copiedBytes += copiedBytes;
        },
      });
    } finally {
      source.close();
      target.close();
    }
  }
}

function whyNoAccess(device: Device, error: unknown): DeviceOutcome["outcome"] {
  if (error instanceof OutdatedError) return "outdated";
  if (device.whyChanged !== undefined) return "device_changed";
  return device.attached ? "pending" : "not_attached";
}
