import { type DeviceId, messageOf } from "@diskmesh/domain";
import type { DeviceFailure } from "../files/device-file.js";
import { readUpTo } from "../files/file-bytes.js";
import { type InFlight, NO_SESSION } from "../files/in-flight.js";
import type { OpenHandle } from "../files/open-file.js";
import { decodeLabel, LABEL_BYTES, whyOtherLabel } from "../model/label.js";
import { WHOLE_DEVICE } from "../model/runs.js";
import type { DeviceOptions } from "./device-options.js";

/** A device whose label is compared. */
interface Checked {
  readonly id: DeviceId;
  readonly config: { readonly offsetBytes: number };
  readonly sizeBytes: number;
  readonly io: InFlight;
  /** Number of operations on the label's bytes. Who knows the label reads it again after another one. */
  labelOperations: number;
  readonly file: {
    readonly handle: OpenHandle | undefined;
    noteInFlight(change: 1 | -1): void;
    reconcile(): void;
  };
  fail(failure: DeviceFailure): void;
}

/**
 * Compares the label on each file that is opened for a device with the remembered one: while the agent was off, another
 * drive's bytes may have been written over the device's.
 */
export class LabelCheck {
  readonly #device: Checked;
  readonly #options: Pick<DeviceOptions, "ledger" | "changes" | "log">;
  /** Last file that may be used. */
  #accepted: OpenHandle | undefined;

  constructor(device: Checked, options: Pick<DeviceOptions, "ledger" | "changes" | "log">) {
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

  get #remembered(): string | undefined {
    return this.#options.ledger.memory.devices.get(this.#device.id)?.labelId;
  }

  async #check(handle: OpenHandle): Promise<void> {
    const other = await this.#whyOther(handle);
    if (other === undefined) this.#accepted = handle;
    else {
      // Another host of a shared drive may have written the label, and the registry is to hear of it.
      this.#device.labelOperations += 1;
      this.#device.fail({ outcome: "device_changed", message: other });
    }
    this.#device.file.reconcile();
    this.#options.changes.touch();
  }

  async #whyOther(handle: OpenHandle): Promise<string | undefined> {
    const { id, config, sizeBytes, io, file } = this.#device;
    const ended = io.begin(NO_SESSION, WHOLE_DEVICE);
    file.noteInFlight(1);
    try {
      const bytes = await readUpTo(handle, config.offsetBytes, Math.min(LABEL_BYTES, sizeBytes), true);
      return whyOtherLabel(id, this.#remembered, decodeLabel(bytes));
    } catch (error) {
      // The hardware is the recorded one, and nothing says that it carries another label.
      this.#options.log.warn({ deviceId: id, error: messageOf(error) }, "label not read");
      return undefined;
    } finally {
      ended();
      file.noteInFlight(-1);
    }
  }
}
