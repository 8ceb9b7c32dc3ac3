import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import { differenceFrom, whyUnseen } from "../devices/device-place.js";
import type { DeviceTable } from "../devices/device-table.js";
import { inTime } from "../devices/in-time.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import type { DeviceFailure } from "../files/device-file.js";
import type { FileFacts } from "../files/open-file.js";
import type { RememberedIdentity } from "../model/memory.js";
import { type DeviceOrder, type OrderVerdict, whyOvertaken } from "../model/orders.js";

/** Executes decided attach and detach orders. The decisions must be durable before `run` is called. */
export class AttachOrders {
  readonly #ledger: Ledger;
  readonly #devices: DeviceTable;

  constructor(ledger: Ledger, devices: DeviceTable) {
    this.#ledger = ledger;
    this.#devices = devices;
  }

  /** Executes an order. Work that exceeds the answer timeout continues, and the outcome is `pending`. */
  async run(order: DeviceOrder, verdict: OrderVerdict): Promise<DeviceOutcome> {
    return { deviceId: order.deviceId, stamp: order.stamp, ...(await this.#execute(order, verdict)) };
  }

  async #execute(order: DeviceOrder, verdict: OrderVerdict): Promise<Came> {
    if (verdict !== "obey") return verdict;
    const overtaken = this.#overtaken(order);
    if (overtaken) return overtaken;
    const device = this.#devices.get(order.deviceId);
    return order.kind === "attach" ? this.#attach(order, device) : this.#detach(order, device);
  }

  async #attach(order: DeviceOrder, device: Device): Promise<Came> {
    const { expected } = order;
    if (device.attached) {
      // The path may name another file now.
      await inTime(this.#devices, device.file.look());
      const overtaken = this.#overtaken(order);
      if (overtaken) return overtaken;
    }
    const { held } = device.file;
    if (device.attached && held) {
      const other = expected && whyOther(expected, held, device);
      if (other === undefined)
        return device.replaced
          ? { outcome: "device_changed", message: device.changed ?? "" }
          : { outcome: "already", message: "" };
      // Closes the held file, because it is not the recorded one. The next open may find the recorded file at the path.
      await this.#letGo(device, other);
      const overtaken = this.#overtaken(order);
      if (overtaken) return overtaken;
    }
    // Joins an open in progress. Starts an open only when the device does not need its file open, e.g. after a failure.
    if (!device.holds) device.attach();
    const came = await this.#devices.until<Came>(() => {
      const overtaken = this.#overtaken(order);
      if (overtaken) return overtaken;
      if (device.failure) return device.failure;
      const { held } = device.file;
      if (!device.attached || !held) return undefined;
      const other = expected && whyOther(expected, held, device);
      if (!other) return { outcome: "done", message: "" };
      const failure: DeviceFailure = { outcome: "device_changed", message: other };
      device.fail(failure);
      device.file.reconcile();
      return failure;
    });
    const message = `device file ${JSON.stringify(device.config.path)} is being opened`;
    return came ?? { outcome: "pending", message, waiting: device.waiting };
  }

  async #detach(order: DeviceOrder, device: Device): Promise<Came> {
    if (!device.wanted && device.released) return { outcome: "already", message: "" };
    device.detach();
    const came = await this.#devices.until<Came>(() => {
      const isDone = !device.wanted && device.released;
      return this.#overtaken(order) ?? (isDone ? { outcome: "done", message: "" } : undefined);
    });
    const { legs, inFlight, file, config } = device;
    const open = legs.sessions.length > 0 ? `, and runs of it are open in sessions ${legs.sessions.join(", ")}` : "";
    const message = `device file ${JSON.stringify(config.path)} is ${file.phase}, with ${inFlight} operations in flight${open}`;
    return came ?? { outcome: "pending", message, waiting: device.waiting };
  }

  /** Refuses I/O on the held file, and waits until it is closed. Does not wait when other devices hold the file. */
  async #letGo(device: Device, reason: string): Promise<void> {
    device.fail({ outcome: "device_changed", message: reason });
    device.file.reconcile();
    const { file } = device;
    const closed = () => file.phase === "closed" || file.isHeld || undefined;
    await this.#devices.until(closed);
  }

  /** Returns the outcome of an order that a later one has replaced; undefined for one that is the last. */
  #overtaken(order: DeviceOrder): Came | undefined {
    const message = whyOvertaken(this.#ledger.memory, order);
    return message === undefined ? undefined : { outcome: "outdated", message };
  }
}

function whyOther(expected: RememberedIdentity, held: FileFacts, { config }: Device): string | undefined {
  return whyUnseen(expected, config) ?? differenceFrom(expected, held, config);
}

type Came = Omit<DeviceOutcome, "deviceId" | "stamp">;
