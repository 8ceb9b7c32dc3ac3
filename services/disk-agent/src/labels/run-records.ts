import type { Logger } from "@diskmesh/domain";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import {
  decodeRecord,
  type FoundRecord,
  isOvertaken,
  RECORD_BYTES,
  recordWrite,
  type WrittenRecord,
} from "../model/run-record.js";
import { type DeviceRun, describeRun, nameOfRun } from "../model/runs.js";
import { type Refusal, Turns } from "./turns.js";

const PAST_CACHES = { fua: true, isPastCaches: true } as const;

/**
 * The records in the first bytes of runs. They are read only of runs that a table of runs has, because a disk can write what
 * looks like a record into bytes of its own.
 */
export class RunRecords {
  readonly #turns: Turns;
  readonly #log: Logger;

  constructor({ devices, log }: { readonly devices: DeviceTable; readonly log: Logger }) {
    this.#turns = new Turns(devices);
    this.#log = log;
  }

  /**
   * Has the run carry the record of a session, which is not outdated. Resolves once that is durable, or to the reason why
   * it is not.
   */
  write(device: Device, run: DeviceRun, record: WrittenRecord): Promise<Refusal | undefined> {
    const job = { subject: nameOfRun(run), name: JSON.stringify(record), what: `the record of ${describeRun(run)}` };
    return this.#turns.do(job, async () => {
      const found = await this.read(device, run);
      if (found !== undefined && !isOvertaken(found.record, record)) return undefined;
      const { offsetBytes, bytes } = recordWrite(record, found);
      await device.write(record.sessionNumber, run.offsetBytes + offsetBytes, bytes, PAST_CACHES);
      return undefined;
    });
  }

  /** Writes the record as `write` does, of a session that does not depend on it. */
  async tryWrite(device: Device, run: DeviceRun, record: WrittenRecord): Promise<void> {
    const refusal = await this.write(device, run, record);
    if (refusal !== undefined)
      this.#log.warn({ ...run, error: refusal.message }, "record of a run does not say that its disk is clean");
  }

  /** Reads the record from the device. Throws when the device is not attached, or cannot be read. */
  async read(device: Device, { offsetBytes }: DeviceRun): Promise<FoundRecord | undefined> {
    return decodeRecord(await device.readInNoSession(offsetBytes, RECORD_BYTES, true));
  }
}
