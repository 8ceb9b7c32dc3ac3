import { isKnownSame, messageOf, OutdatedError, type Stamp } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import { inTime } from "../devices/in-time.js";
import { type DeviceOutcome, isGranted } from "../devices/outcome.js";
import type { FileOpener, OpenHandle } from "../files/open-file.js";
import {
  type DeviceLabel,
  decodeLabel,
  isSameLabel,
  LABEL_AREA,
  LABEL_BYTES,
  type LabelFinding,
  labelWrites,
} from "../model/label.js";
import { type DeviceRun, overlaps } from "../model/runs.js";
import { isBytesOfUser } from "../model/sessions.js";
import type { SessionOrders } from "./session-orders.js";

const ZEROS = Buffer.alloc(LABEL_BYTES);

/** File whose label was read, and when. It may have another label once it is opened again, or a session has written there. */
interface Place {
  readonly identity: string | undefined;
  readonly handle: OpenHandle | undefined;
  readonly labelOperations: number;
  /** The label's bytes may have data of a disk's user: of a disk there, or of one that is being erased. */
  readonly isUsers: boolean;
}

interface Known extends Place {
  readonly found: LabelFinding;
}

/** Answer to an order to write a label. */
interface Written {
  readonly outcome: DeviceOutcome;
  /** Label as read back; absent when it was removed, and when the order is not done. */
  readonly label?: DeviceLabel | undefined;
}

/** A write that has begun. */
interface Writing {
  readonly number: number;
  readonly labelId: string | undefined;
  /** Resolves once the write and its session have ended. */
  readonly came: Promise<Written>;
}

interface LabelOptions {
  readonly devices: DeviceTable;
  readonly sessions: SessionOrders;
  readonly ledger: Ledger;
  readonly opener: Pick<FileOpener, "peek">;
  /** Called when a device has another label than was last told, so that the agent registers again. */
  readonly onChange: () => void;
}

/** Reads the labels of devices, and writes them on orders. */
export class Labels {
  readonly #options: LabelOptions;
  readonly #known = new Map<Device, Known>();
  /** Labels as they were last reported. */
  readonly #told = new Map<Device, LabelFinding | undefined>();
  /** Running reads. A device has one at a time, because each one of a hung drive occupies a thread. */
  readonly #reading = new Map<Device, Promise<void>>();
  /** Latest writes. An order that is repeated in its session joins the write. */
  readonly #writing = new Map<Device, Writing>();

  constructor(options: LabelOptions) {
    this.#options = options;
  }

  /** Returns the label of the file that the device's path names now, to be reported; undefined when it could not be read. */
  of(device: Device): LabelFinding | undefined {
    const found = this.found(device);
    this.#told.set(device, found);
    return found;
  }

  /** Returns the label of the file that the device's path names now, as it was last read; undefined when it was not read. */
  found(device: Device): LabelFinding | undefined {
    return this.#isKnown(device) ? this.#known.get(device)?.found : undefined;
  }

  /** Returns the label of the device; undefined when it cannot be read. */
  async read(device: Device): Promise<LabelFinding | undefined> {
    if (!this.#isKnown(device)) await this.#read(device);
    return this.found(device);
  }

  /** Reads the labels that are not known, and returns after the answer timeout at the latest. */
  async look(): Promise<void> {
    const { devices } = this.#options;
    const unread = devices.all().filter((device) => !this.#isKnown(device));
    await inTime(devices, Promise.all(unread.map((device) => this.#read(device))));
  }

  /** Writes the label in the session, or zeros without a label. The session is forgotten when that is done. */
  async write(run: DeviceRun, number: number, label: DeviceLabel | undefined, stamp: Stamp): Promise<Written> {
    const { devices, sessions } = this.#options;
    const answer = (outcome: DeviceOutcome["outcome"], message: string): Written => {
      return { outcome: { ...run, outcome, message, stamp } };
    };
    const device = devices.get(run.deviceId);
    const answerOf = async ({ came }: Writing): Promise<Written> => {
      const written = await inTime(devices, came);
      return written?.result ?? answer("pending", `the label of device ${device.id} is being written`);
    };
    const begun = this.#writing.get(device);
    if (begun?.number === number && begun.labelId === label?.labelId) return answerOf(begun);
    const wish = { number, purpose: "label" as const, diskId: "", holderHostId: "" };
    const wereUsers = this.#placeOf(device).isUsers;
    const [opened] = await sessions.open([run], wish, stamp);
    // The session ends in any case: the registry may not repeat the order once it has found a label.
    // I/O in flight holds up the end. While its bytes have a session, no table of runs is written.
    const end = async (): Promise<void> => {
      while ((await sessions.close([run], number, stamp))[0]?.outcome === "pending");
    };
    if (!opened || !isGranted(opened)) {
      void end().catch(() => undefined);
      return opened ? { outcome: opened } : answer("unknown_device", "");
    }
    const came = this.#write(device, number, { label, wereUsers })
      .then(
        (): Written => ({ ...answer("done", ""), label }),
        (error: unknown) => answer(error instanceof OutdatedError ? "outdated" : "io_error", messageOf(error)),
      )
      .then((written) => end().then(() => written))
      .catch((error: unknown) => answer("io_error", messageOf(error)));
    const writing = { number, labelId: label?.labelId, came };
    this.#writing.set(device, writing);
    return answerOf(writing);
  }

  /** Returns whether a disk has the device's first bytes. */
  isDisks(run: DeviceRun): boolean {
    const { sessions = [] } = this.#options.ledger.memory.devices.get(run.deviceId) ?? {};
    return sessions.some((session) => session.diskId !== "" && overlaps(session, run));
  }

  #placeOf({ id: deviceId, file, labelOperations }: Device): Place {
    const { sessions = [], identity, formerIdentity } = this.#options.ledger.memory.devices.get(deviceId) ?? {};
    const { seen, handle } = file;
    const [recorded, marks] = [identity ?? formerIdentity, seen && { ...seen, fileIdentity: seen.identity }];
    // A disk that has all bytes of the device has these, too: they are its user's until they are erased. Sessions say
    // nothing of other hardware.
    const isOther = recorded !== undefined && marks !== undefined && !isKnownSame(recorded, marks);
    const isUsers = !isOther && sessions.some((session) => isBytesOfUser(session, LABEL_AREA));
    return { identity: seen?.identity, handle, labelOperations, isUsers };
  }

  #isKnown(device: Device): boolean {
    const [known, now] = [this.#known.get(device), this.#placeOf(device)];
    const isSameFile = known?.identity === now.identity && known?.handle === now.handle;
    return isSameFile && known?.labelOperations === now.labelOperations && known?.isUsers === now.isUsers;
  }

  #read(device: Device): Promise<void> {
    const reading = this.#reading.get(device) ?? this.#readNow(device).finally(() => void this.#reading.delete(device));
    this.#reading.set(device, reading);
    return reading;
  }

  /** Reads the label of the file at the device's path, by the open file where the path names that. */
  async #readNow(device: Device): Promise<void> {
    const { opener, onChange } = this.#options;
    const { config } = device;
    const place = this.#placeOf(device);
    const before = this.#known.get(device);
    if (place.isUsers) {
      this.#known.set(device, { found: { state: "users" }, ...place });
      return;
    }
    const lengthBytes = Math.min(LABEL_BYTES, device.reported.sizeBytes);
    try {
      const bytes =
        device.attached && device.changed === undefined
          ? await device.readInNoSession(0, lengthBytes, true)
          : undefined;
      const peeked = bytes ? undefined : await opener.peek(config.path, config.offsetBytes, lengthBytes);
      if (peeked !== undefined && peeked.identity !== place.identity) return;
      const found = decodeLabel(bytes ?? peeked?.bytes ?? ZEROS);
      // A label that was written meanwhile is the later one.
      if (this.#known.get(device) !== before) return;
      this.#known.set(device, { found, ...place });
      if (JSON.stringify(this.#told.get(device)) !== JSON.stringify(found)) onChange();
    } catch {
      // A file that cannot be read is a problem that the look at it, or its probe, tells.
      this.#known.delete(device);
    }
  }

  async #write(
    device: Device,
    number: number,
    { label, wereUsers }: { readonly label: DeviceLabel | undefined; readonly wereUsers: boolean },
  ): Promise<void> {
    const before = decodeLabel(wereUsers ? ZEROS : await device.read(number, 0, LABEL_BYTES));
    // A disk can write what looks like a label or a table into bytes of its own.
    const cleared = wereUsers || label === undefined ? [{ offsetBytes: 0, bytes: ZEROS }] : [];
    const writes = [...cleared, ...(label === undefined ? [] : labelWrites(label, before))];
    this.#known.delete(device);
    for (const { offsetBytes, bytes } of writes) await device.write(number, offsetBytes, bytes, { fua: true });
    const found = decodeLabel(await device.readInNoSession(0, LABEL_BYTES, true));
    const isThere =
      label === undefined ? found.state === "none" : found.state === "valid" && isSameLabel(found.label, label);
    if (!isThere) throw new Error(`the label of device ${device.id} was written, and is ${found.state} on the device`);
    this.#known.set(device, { found, ...this.#placeOf(device) });
    this.#told.set(device, found);
  }
}
