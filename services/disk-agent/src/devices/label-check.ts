import { type DeviceId, messageOf } from "@diskmesh/domain";
import type { DeviceFailure } from "../files/device-file.js";
import type { OpenHandle } from "../files/open-file.js";
import { decodeLabel, LABEL_AREA, LABEL_BYTES, whyOtherLabel } from "../model/label.js";
import { isBytesOfUser } from "../model/sessions.js";
import type { DeviceOptions } from "./device-options.js";
import type { DeviceProblem } from "./device-problem.js";

/** A device whose label is compared. */
interface Checked {
  readonly id: DeviceId;
  readonly config: { readonly path: string };
  readonly sizeBytes: number;
  /** Number of operations on the label's bytes. Who knows the label reads it again after another one. */
  labelOperations: number;
  readonly file: {
    readonly handle: OpenHandle | undefined;
    reconcile(): void;
  };
  readInNoSession(offsetBytes: number, lengthBytes: number, fromDrive: boolean, handle: OpenHandle): Promise<Buffer>;
  fail(failure: DeviceFailure): void;
}

type Options = Pick<DeviceOptions, "ledger" | "changes" | "log" | "onChange">;

/**
 * Compares the label on each file that is opened for a device with the remembered one, and again with each probe: another
 * drive's bytes, or a file system, may have been written over the device's.
 */
export class LabelCheck {
  readonly #device: Checked;
  readonly #options: Options;
  /** Last file that may be used. */
  #accepted: OpenHandle | undefined;
  /** Loss of a label that was found while the device was in use. */
  #lost: { readonly labelId: string; readonly message: string } | undefined;

  constructor(device: Checked, options: Options) {
    this.#device = device;
    this.#options = options;
  }

  /** True while the label on the open file is being read. */
  get isPending(): boolean {
    const { handle } = this.#device.file;
    return handle !== undefined && handle !== this.#accepted;
  }

  /** Checks a file that was opened. Without a remembered label the file is accepted at once. */
  begin(handle: OpenHandle): void {
    if (this.#remembered === undefined) this.#accepted = handle;
    else void this.#check(handle);
  }

  /** Loss of the label while the device is in use; undefined once the label is back, or the registry dropped it. */
  get problem(): DeviceProblem | undefined {
    const lost = this.#lost;
    return lost === undefined || lost.labelId !== this.#remembered
      ? undefined
      : { level: "ERROR", message: lost.message };
  }

  /**
   * Reads the label of the device in use again. Without a label its disks go on, because nothing is saved by an end of
   * their I/O. With another one the device fails: another host or fleet uses the drive.
   */
  async look(): Promise<void> {
    const { handle } = this.#device.file;
    const labelId = this.#remembered;
    if (labelId === undefined || this.#areUsers || handle === undefined || handle !== this.#accepted) return;
    const { labelOperations } = this.#device;
    const bytes = await this.#read(handle);
    // The registry may have had another label written meanwhile.
    const isSame = this.#remembered === labelId && !this.#areUsers && this.#device.labelOperations === labelOperations;
    if (!isSame || this.#device.file.handle !== handle) return;
    const message = this.#whyOther(bytes);
    if (message === this.problem?.message) return;
    this.#lost = message === undefined ? undefined : { labelId, message };
    this.#device.labelOperations += 1;
    if (message === undefined) this.#options.log.info({ deviceId: this.#device.id }, "label found again");
    else this.#options.log.error({ deviceId: this.#device.id }, message);
    if (message !== undefined && decodeLabel(bytes).state === "valid") {
      this.#device.fail({ outcome: "device_changed", message });
      this.#device.file.reconcile();
    }
    this.#options.changes.touch();
    this.#options.onChange();
  }

  get #remembered(): string | undefined {
    return this.#options.ledger.memory.devices.get(this.#device.id)?.labelId;
  }

  /** True while a disk may have the label's bytes, or they are being erased. */
  get #areUsers(): boolean {
    const { sessions = [] } = this.#options.ledger.memory.devices.get(this.#device.id) ?? {};
    return sessions.some((session) => isBytesOfUser(session, LABEL_AREA));
  }

  #whyOther(bytes: Buffer): string | undefined {
    if (this.#areUsers && decodeLabel(bytes).state !== "valid") return undefined;
    const { id: deviceId, config, sizeBytes } = this.#device;
    return whyOtherLabel({ deviceId, path: config.path, sizeBytes, labelId: this.#remembered }, bytes);
  }

  async #check(handle: OpenHandle): Promise<void> {
    const other = await this.#whyRefused(handle);
    if (other === undefined) this.#accepted = handle;
    else {
      // Another host of a shared drive may have written the label, and the registry is to hear of it.
      this.#device.labelOperations += 1;
      this.#device.fail({ outcome: "device_changed", message: other });
    }
    this.#device.file.reconcile();
    this.#options.changes.touch();
  }

  async #whyRefused(handle: OpenHandle): Promise<string | undefined> {
    try {
      return this.#whyOther(await this.#read(handle));
    } catch (error) {
      // The hardware is the recorded one, and nothing says that it carries another label.
      this.#options.log.warn({ deviceId: this.#device.id, error: messageOf(error) }, "label not read");
      return undefined;
    }
  }

  #read(handle: OpenHandle): Promise<Buffer> {
    return this.#device.readInNoSession(0, Math.min(LABEL_BYTES, this.#device.sizeBytes), true, handle);
  }
}
