import {
  type DeviceId,
  type DiskId,
  InvalidArgumentError,
  type Logger,
  messageOf,
  OutdatedError,
  type Stamp,
} from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { Pace } from "../base/pace.js";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import type { OpenHandle } from "../files/open-file.js";
import { durableBytesOf, resumeToken, startOf } from "../model/copy-mark.js";
import { placeOf } from "../model/exports.js";
import type { ExportDevice } from "../model/memory.js";
import { nameOfRun } from "../model/runs.js";
import type { OpenPart } from "../parts/open-part.js";
import { CopyError, type CopyLimits, copyBytes, on } from "./copy-bytes.js";

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
  /** Token of an earlier answer, perhaps of a former life of the agent; empty for none. */
  readonly resumeToken: string;
  /** Bytes that former sessions have copied, durably. */
  readonly copiedBytes: number;
}

/** Progress of a copy. */
export interface CopyAnswer {
  readonly outcome: DeviceOutcome;
  readonly copiedBytes: number;
  /** Token with which the next order of the session goes on; empty when it begins at the first byte. */
  readonly resumeToken: string;
  /** Bytes that are copied, durably; 0 without a token. */
  readonly durableBytes: number;
}

interface CopyJob {
  readonly sessionNumber: number;
  readonly sizeBytes: number;
  /** Source as the last request named it. */
  source: ExportDevice;
  readonly pace: Pace;
  /** File that is being written. A device whose present handle is another one may have a swapped drive at its path. */
  readonly handle: OpenHandle | undefined;
  /** Bytes that were on the target when the job began. */
  readonly startBytes: number;
  copiedBytes: number;
  resumeToken: string;
  state: "running" | "done" | "outdated" | "failed";
  message: string;
}

interface CopierOptions {
  readonly devices: DeviceTable;
  readonly ledger: Pick<Ledger, "memory">;
  readonly openPart: OpenPart;
  readonly clock: Clock;
  readonly limits: CopyLimits;
  readonly log: Logger;
}

const NOTHING = { copiedBytes: 0, resumeToken: "" };

/** Copies runs to devices of this host. Each target has one job. A job that has ended goes on by its token. */
export class Copier {
  readonly #options: CopierOptions;
  /** Jobs by the name of the run that they write. */
  readonly #jobs = new Map<string, CopyJob>();
  readonly #stopping = new AbortController();

  constructor(options: CopierOptions) {
    this.#options = options;
  }

  /** Starts a copy, or joins the running one. Returns when it is done, or after the answer timeout. */
  async copy(order: CopyOrder, stamp: Stamp): Promise<CopyAnswer> {
    const { devices, ledger } = this.#options;
    const { deviceId, offsetBytes, sizeBytes } = order;
    const device = devices.find(deviceId);
    const answer = (outcome: DeviceOutcome["outcome"], message: string, { copiedBytes, resumeToken } = NOTHING) => ({
      outcome: { deviceId, offsetBytes, sizeBytes, outcome, message, stamp },
      copiedBytes,
      resumeToken,
      durableBytes: durableBytesOf(resumeToken),
    });
    if (device === undefined) return answer("unknown_device", `host ${ledger.memory.hostId} has no device ${deviceId}`);
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
    await devices.until(() => (job.state === "running" ? undefined : true));
    const outcomes = { running: "pending", done: "done", outdated: "outdated", failed: "io_error" } as const;
    return answer(outcomes[job.state], job.message, job);
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
    const pace = new Pace(this.#options.clock, bytesPerSecond);
    const isRepeated = known?.sessionNumber === sessionNumber;
    // A file that this life has closed and opened again may have been written by others meanwhile.
    const ownToken = isRepeated && known.handle === handle ? known.resumeToken : "";
    const place = this.#placeOf(device, order);
    const startBytes = isRepeated
      ? startOf(ownToken, place, sizeBytes)
      : Math.max(startOf(order.resumeToken, place, sizeBytes), order.copiedBytes);
    const token = resumeToken(place, startBytes);
    const start = { startBytes, copiedBytes: startBytes, resumeToken: token, state: "running" as const, message: "" };
    const job: CopyJob = { sessionNumber, sizeBytes, source, pace, handle, ...start };
    this.#jobs.set(name, job);
    void this.#run(device, order, job);
    return job;
  }

  async #run(device: Device, order: CopyOrder, job: CopyJob): Promise<void> {
    const { devices, log } = this.#options;
    const { diskId, sessionNumber } = order;
    const about = { diskId, sessionNumber, deviceId: device.id, sourceId: order.source.deviceId };
    log.info({ ...about, startBytes: job.startBytes }, "copy started");
    try {
      await this.#copy(device, order, job);
      // Some bytes went to the former file, so the whole copy must run again.
      if (device.file.handle !== job.handle) throw new Error(`device ${device.id} was detached while it was written`);
      job.state = "done";
      log.info(about, "copy finished");
    } catch (error) {
      const cause = error instanceof CopyError ? error.cause : error;
      job.state = cause instanceof OutdatedError ? "outdated" : "failed";
      if (!mayGoOn(error) || device.file.handle !== job.handle) job.resumeToken = "";
      job.message = messageOf(error);
      log.warn({ ...about, error: job.message }, "copy failed");
    }
    devices.changes.touch();
  }

  #placeOf(device: Device, order: CopyOrder) {
    return {
      sessionNumber: order.sessionNumber,
      source: placeOf(order.source),
      target: nameOfRun(order),
      fileIdentity: device.file.held?.identity ?? "",
      deviceGeneration: this.#options.ledger.memory.devices.get(device.id)?.order?.deviceGeneration ?? 0,
    };
  }

  async #copy(device: Device, order: CopyOrder, job: CopyJob): Promise<void> {
    const { ledger, openPart, limits } = this.#options;
    const { deviceId, offsetBytes, sizeBytes } = order;
    const place = this.#placeOf(device, order);
    const { hostId } = ledger.memory;
    const own = { deviceId, hostId, offsetBytes, sizeBytes, blockAddress: "", sessionKey: "" };
    const target = openPart(own, order);
    const source = openPart(order.source, order, () => job.source);
    try {
      // Bytes that the source could lose with its machine would differ from their copies then.
      await on("source", source.flush());
      await copyBytes({
        source,
        target,
        sizeBytes,
        startBytes: job.startBytes,
        limits,
        pace: job.pace,
        signal: this.#stopping.signal,
        onCopied: (copiedBytes) => {
          job.copiedBytes = copiedBytes;
        },
        onDurable: (durableBytes) => {
          job.resumeToken = resumeToken(place, durableBytes);
        },
      });
    } finally {
      source.close();
      target.close();
    }
  }
}

/** Returns whether the target still has what was flushed: the copy has ended for its source, or with the agent. */
function mayGoOn(error: unknown): boolean {
  return error instanceof CopyError ? error.at === "source" && !(error.cause instanceof OutdatedError) : true;
}

function whyNoAccess(device: Device, error: unknown): DeviceOutcome["outcome"] {
  if (error instanceof OutdatedError) return "outdated";
  if (device.whyChanged !== undefined) return "device_changed";
  return device.attached ? "pending" : "not_attached";
}
