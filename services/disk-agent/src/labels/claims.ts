import type { Logger } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { FoundRecord } from "../model/run-record.js";
import type { TableEntry } from "../model/run-table.js";
import { RunRecords } from "./run-records.js";
import { RunTables } from "./run-tables.js";

/** A run that a device's table has, as the device says. */
export interface Claim extends TableEntry {
  /** Absent when the run has no whole record. */
  readonly found: FoundRecord | undefined;
}

/** What devices say of their runs. */
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
  async read(device: Device, fromBytes: number, count: number): Promise<readonly Claim[]> {
    const { entries } = await this.tables.read(device);
    const asked = entries.filter(({ offsetBytes }) => offsetBytes >= fromBytes).slice(0, count);
    const claims: Claim[] = [];
    for (const entry of asked) {
      const found = await this.records.read(device, { deviceId: device.id, ...entry });
      claims.push({ ...entry, found });
    }
    return claims;
  }
}
