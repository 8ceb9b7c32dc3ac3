import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type Logger, messageOf } from "@diskmesh/domain";
import { type DriveError, describeDriveError, isErrorOf, parseDriveError } from "../model/drive-errors.js";
import type { DeviceTable } from "./device-table.js";

const KERNEL_LOG = "/dev/kmsg";
/** Above the longest record. */
const RECORD_BYTES = 16_384;
/** Maximum records of a look. The kernel keeps the others for the next one. */
const MAX_RECORDS = 10_000;

/**
 * Finds the errors of drives in the kernel's log. Where the kernel carries the bytes, no program sees the requests that
 * fail, and a log is all that loop devices, virtio, NVMe and SCSI have in common. The kernel logs at most 10 errors in 5 s.
 */
export class DriveErrors {
  readonly #file: FileHandle;
  readonly #log: Logger;
  readonly #buffer = Buffer.alloc(RECORD_BYTES);

  private constructor(file: FileHandle, log: Logger) {
    this.#file = file;
    this.#log = log;
  }

  /** Begins behind the newest record, because older ones may be of drives that were replaced. Throws as `open` does. */
  static async open(log: Logger, path = KERNEL_LOG): Promise<DriveErrors> {
    const errors = new DriveErrors(await open(path, constants.O_RDONLY | constants.O_NONBLOCK), log);
    try {
      while ((await errors.#take()).isFull);
      return errors;
    } catch (error) {
      await errors.close();
      throw error;
    }
  }

  /** Notes the errors that were logged since the last look at the devices whose bytes they are. */
  async look(devices: Pick<DeviceTable, "all" | "hardwareErrors">): Promise<void> {
    const { errors } = await this.#take();
    if (errors.length === 0) return;
    for (const device of devices.all()) {
      const { drive } = device.file.handle ?? {};
      const bytes = { offsetBytes: device.config.offsetBytes, sizeBytes: device.sizeBytes };
      const ofDevice = errors.filter((error) => drive !== undefined && isErrorOf(error, drive, bytes));
      const [first] = ofDevice;
      if (first === undefined) continue;
      const message = describeDriveError(first);
      devices.hardwareErrors.note(device.id, message);
      this.#log.error({ deviceId: device.id, errors: ofDevice.length, error: message }, "drive has failed I/O");
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #take(): Promise<{ readonly errors: readonly DriveError[]; readonly isFull: boolean }> {
    const errors: DriveError[] = [];
    for (let records = 0; records < MAX_RECORDS; records += 1) {
      const record = await this.#read();
      if (record === undefined) return { errors, isFull: false };
      const error = parseDriveError(record);
      if (error !== undefined) errors.push(error);
    }
    return { errors, isFull: true };
  }

  /** Returns the next record, which is empty where some were overwritten; undefined without one. */
  async #read(): Promise<string | undefined> {
    try {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, RECORD_BYTES, null);
      return bytesRead === 0 ? undefined : this.#buffer.toString("latin1", 0, bytesRead);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EAGAIN") return undefined;
      if (code === "EPIPE") return "";
      throw error;
    }
  }
}

/** Returns the reader of the kernel's log, or why errors of drives stay unseen there. */
export async function openDriveErrors(log: Logger, path = KERNEL_LOG): Promise<DriveErrors | string> {
  try {
    return await DriveErrors.open(log, path);
  } catch (error) {
    return `errors of drives that only disks see do not make devices ERROR: ${path} cannot be read: ${messageOf(error)}: give the agent CAP_SYSLOG, and in a container the host's ${path}`;
  }
}
