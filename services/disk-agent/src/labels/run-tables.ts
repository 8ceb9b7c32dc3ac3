import type { Logger } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import { BELOW_SESSIONS, NO_SESSION } from "../files/in-flight.js";
import type { OpenHandle } from "../files/open-file.js";
import { LABEL_AREA, LABEL_BYTES } from "../model/label.js";
import {
  decodeTable,
  MAX_TABLE_ENTRIES,
  type RunTable,
  type TableEntry,
  tableWrite,
  withEntry,
  withoutErased,
} from "../model/run-table.js";
import { type DeviceRun, describeRun, nameOfRun, overlaps } from "../model/runs.js";
import { isBytesOfUser } from "../model/sessions.js";
import { diskDigest } from "./disk-digest.js";
import { type Refusal, Turns } from "./turns.js";

const PAST_CACHES = { fua: true, isPastCaches: true } as const;

interface Known {
  readonly handle: OpenHandle | undefined;
  readonly labelOperations: number;
  readonly table: RunTable;
}

/** Returns the entries to write, if they change, or why the change is refused. */
type Decide = (entries: readonly TableEntry[]) => { entries?: readonly TableEntry[]; refusal?: Refusal };

interface TablesOptions {
  readonly devices: DeviceTable;
  readonly ledger: Pick<Ledger, "memory">;
  readonly log: Logger;
}

/**
 * The tables of runs in the label areas of devices. A table has a run before the run's first session, and until it is
 * erased.
 */
export class RunTables {
  readonly #options: TablesOptions;
  readonly #known = new Map<Device, Known>();
  readonly #turns: Turns;
  /** Highest session for which a run was entered in this life of the agent, by the run's name. */
  readonly #enteredBy = new Map<string, number>();

  constructor(options: TablesOptions) {
    this.#options = options;
    this.#turns = new Turns(options.devices);
  }

  /** Returns whether the table has the run of the disk, durably, as far as that is known without a look at the device. */
  has(run: DeviceRun, diskId: string): boolean {
    const device = this.#options.devices.find(run.deviceId);
    const known = device && this.#knownOf(device);
    return known !== undefined && hasEntry(known.table.entries, entryOf(run, diskId));
  }

  /**
   * Enters the run for a session of the disk. Resolves once that is durable, or to the reason why it is not. A session that
   * is lower than one for which the bytes were entered is outdated.
   */
  enter(run: DeviceRun, diskId: string, sessionNumber: number): Promise<Refusal | undefined> {
    return this.#change(`enter ${nameOfRun(run)} ${run.sizeBytes} ${diskId} ${sessionNumber}`, run, (entries) => {
      const later = entries.find((each) => overlaps(each, run) && this.#sessionOf(run, each) > sessionNumber);
      if (later !== undefined) {
        const message = `session ${sessionNumber} of ${describeRun(run)} is outdated: session ${this.#sessionOf(run, later)} comes later`;
        return { refusal: { outcome: "outdated", message } };
      }
      const wanted = entryOf(run, diskId);
      const next = withEntry(entries, wanted);
      if (next.length > MAX_TABLE_ENTRIES) {
        const message = `the table of device ${run.deviceId} has ${entries.length} runs, the most that fit: delete disks there`;
        return { refusal: { outcome: "io_error", message } };
      }
      this.#enteredBy.set(nameOfRun(run), sessionNumber);
      return hasEntry(entries, wanted) ? {} : { entries: next };
    });
  }

  /** Removes the runs that an erase in this session has erased. Resolves once that is durable, or to why it is not. */
  async remove(run: DeviceRun, sessionNumber: number): Promise<Refusal | undefined> {
    // The table was erased with the run, or none is believed there.
    if (overlaps(run, LABEL_AREA) || this.#isLabelAreaUsed(this.#options.devices.get(run.deviceId))) return undefined;
    return this.#change(`remove ${nameOfRun(run)} ${sessionNumber}`, run, (entries) => {
      const isErased = (each: TableEntry) => overlaps(each, run) && this.#sessionOf(run, each) < sessionNumber;
      if (!entries.some(isErased)) return {};
      const left = entries.flatMap((each) => (isErased(each) ? withoutErased([each], run) : each));
      const isLeft = ({ offsetBytes }: TableEntry) => left.some((each) => each.offsetBytes === offsetBytes);
      for (const each of entries)
        if (!isLeft(each)) this.#enteredBy.delete(nameOfRun({ deviceId: run.deviceId, ...each }));
      return { entries: left };
    });
  }

  /** Reads the table from the device. Throws when the device is not attached, or cannot be read. */
  async read(device: Device): Promise<RunTable> {
    // A disk can write what looks like a table into bytes of its own.
    if (this.#isLabelAreaUsed(device)) return decodeTable(Buffer.alloc(0));
    return decodeTable(await device.readInNoSession(0, LABEL_BYTES, true));
  }

  #sessionOf({ deviceId }: DeviceRun, { offsetBytes }: TableEntry): number {
    return this.#enteredBy.get(nameOfRun({ deviceId, offsetBytes })) ?? 0;
  }

  /** Changes the table of the run's device after all earlier changes. */
  #change(name: string, run: DeviceRun, decide: Decide): Promise<Refusal | undefined> {
    const device = this.#options.devices.get(run.deviceId);
    const what = `the table of runs of device ${device.id}`;
    return this.#turns.do({ subject: device.id, name, what }, () => this.#changeNow(device, decide));
  }

  async #changeNow(device: Device, decide: Decide): Promise<Refusal | undefined> {
    // A label that is being removed, for one, takes the table with it.
    const isQuiet = () => !this.#isLabelAreaUsed(device) && device.io.isQuietBelow(NO_SESSION, LABEL_AREA);
    await this.#options.devices.until(() => (isQuiet() ? true : undefined));
    if (!device.attached) return { outcome: "not_attached", message: `device ${device.id} is not attached` };
    const table = await this.#tableOf(device);
    const { entries, refusal } = decide(table.entries);
    if (entries === undefined) return refusal;
    const { offsetBytes, bytes } = tableWrite(table, entries);
    // A write that fails may have reached the device.
    this.#known.delete(device);
    const place = this.#placeOf(device);
    await device.write(BELOW_SESSIONS, offsetBytes, bytes, PAST_CACHES);
    const written = { entries, counter: table.counter + 1, slot: 1 - table.slot, isDamaged: false };
    this.#known.set(device, { ...place, table: written });
    return undefined;
  }

  async #tableOf(device: Device): Promise<RunTable> {
    const known = this.#knownOf(device);
    if (known !== undefined) return known.table;
    const place = this.#placeOf(device);
    const table = await this.read(device);
    if (table.isDamaged)
      this.#options.log.warn({ deviceId: device.id }, "table of runs damaged: runs enter it at their next session");
    this.#known.set(device, { ...place, table });
    return table;
  }

  /** Returns the table as it was last read or written; undefined when the label area may have another one. */
  #knownOf(device: Device): Known | undefined {
    const [known, now] = [this.#known.get(device), this.#placeOf(device)];
    return known?.handle === now.handle && known?.labelOperations === now.labelOperations ? known : undefined;
  }

  #isLabelAreaUsed({ id }: Device): boolean {
    const { sessions = [] } = this.#options.ledger.memory.devices.get(id) ?? {};
    return sessions.some((session) => isBytesOfUser(session, LABEL_AREA));
  }

  #placeOf({ file: { handle }, labelOperations }: Device): Omit<Known, "table"> {
    return { handle, labelOperations };
  }
}

function entryOf({ offsetBytes, sizeBytes }: DeviceRun, diskId: string): TableEntry {
  return { offsetBytes, sizeBytes, disk: diskDigest(diskId) };
}

/** Returns whether there is such an entry, or a longer one, because a late order does not shorten a run. */
function hasEntry(entries: readonly TableEntry[], { offsetBytes, sizeBytes, disk }: TableEntry): boolean {
  return entries.some((each) => each.offsetBytes === offsetBytes && each.sizeBytes >= sizeBytes && each.disk === disk);
}
