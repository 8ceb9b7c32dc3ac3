import type { Logger } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { WrittenRecord } from "../model/run-record.js";
import type { TableEntry } from "../model/run-table.js";
import { diskDigest } from "./disk-digest.js";
import { RunRecords } from "./run-records.js";
import { RunTables } from "./run-tables.js";

/** A run that a device's table has, as the device says. */
export interface Claim extends TableEntry {
  /** Absent when the run has no whole record, or that of another disk. */
  readonly record: WrittenRecord | undefined;
}

interface ClaimsPage {
  readonly claims: readonly Claim[];
  /** Offset of the next run; 0 when there is none. */
  readonly nextBytes: number;
  /** True when the device had a table, and no copy is whole. */
  readonly isDamaged: boolean;
}

/** Tables and records of runs, on the devices. */
export class Claims {
  readonly tables: RunTables;
  readonly records: RunRecords;

  constructor(options: {
    readonly devices: DeviceTable;
    readonly ledger: Pick<Ledger, "memory">;
    readonly log: Logger;
  }) {
    this.tables = new RunTables(options);
    this.records = new RunRecords(options);
  }

  /** Reads the runs of a device from this byte on, at most `count`. Throws when the device cannot be read. */
  async read(device: Device, fromBytes: number, count: number): Promise<ClaimsPage> {
    const { entries, isDamaged } = await this.tables.read(device);
    const rest = entries.filter(({ offsetBytes }) => offsetBytes >= fromBytes);
    const claims: Claim[] = [];
    for (const entry of rest.slice(0, count)) {
      const found = await this.records.read(device, { deviceId: device.id, ...entry });
      const isOfRun = found !== undefined && diskDigest(found.record.diskId) === entry.disk;
      claims.push({ ...entry, record: isOfRun ? found.record : undefined });
    }
    return { claims, nextBytes: rest[count]?.offsetBytes ?? 0, isDamaged };
  }
}
