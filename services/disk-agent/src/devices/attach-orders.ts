import type { Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { type DeviceOrder, isCurrentOrder, type OrderVerdict, overtaken } from "../model/orders.js";
import type { Device, DeviceFailure } from "./device.js";
import type { DeviceTable } from "./device-table.js";
import type { DeviceOutcome } from "./outcome.js";

/** What the registry recorded of a device. */
export interface ExpectedDevice {
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
}

/** Does what was decided about attach and detach orders. The decisions are remembered and durable before `run`. */
export class AttachOrders {
  readonly #ledger: Ledger;
  readonly #devices: DeviceTable;
  readonly #clock: Clock;
  readonly #answerTimeoutMs: number;

  constructor(options: { ledger: Ledger; devices: DeviceTable; clock: Clock; answerTimeoutMs: number }) {
    this.#ledger = options.ledger;
    this.#devices = options.devices;
    this.#clock = options.clock;
    this.#answerTimeoutMs = options.answerTimeoutMs;
  }

  /** Answers within the answer timeout; what is not done by then goes on and is `pending`. */
  async run(order: DeviceOrder, verdict: OrderVerdict, expected: ExpectedDevice | undefined): Promise<DeviceOutcome> {
    const answer = (outcome: DeviceOutcome["outcome"], message = ""): DeviceOutcome => {
      return { deviceId: order.deviceId, outcome, message, stamp: order.stamp };
    };
    if (verdict.verdict === "unknown_device" || verdict.verdict === "outdated")
      return answer(verdict.verdict, verdict.message);
    if (!isCurrentOrder(this.#ledger.memory, order))
      return answer("outdated", overtaken(this.#ledger.memory, order).message);
    const device = this.#devices.get(order.deviceId);
    const outcome = order.kind === "attach" ? this.#attach(order, device, expected) : this.#detach(order, device);
    const { outcome: name, message } = await outcome;
    return answer(name, message);
  }

  async #attach(order: DeviceOrder, device: Device, expected: ExpectedDevice | undefined): Promise<Came> {
    const wasAttached = device.attached;
    const changed = expected && configuredOtherwise(device, expected);
    if (changed) return { outcome: "device_changed", message: changed };
    if (wasAttached) {
      const changedSize = expected && sizedOtherwise(device, expected);
      if (changedSize) return { outcome: "device_changed", message: changedSize };
      const replaced = await this.#replacedUnderneath(device);
      if (!isCurrentOrder(this.#ledger.memory, order)) return this.#overtaken(order);
      if (replaced) return { outcome: "device_changed", message: replaced };
      return { outcome: "already", message: "" };
    }
    // An attempt under way is joined; only one that failed is started anew.
    if (!device.holds) device.attach();
    const came = await this.#devices.condition.until<Came>(
      () => {
        if (!isCurrentOrder(this.#ledger.memory, order)) return this.#overtaken(order);
        if (device.failure) return device.failure;
        if (!device.attached) return undefined;
        const changedSize = expected && sizedOtherwise(device, expected);
        if (!changedSize) return { outcome: "done", message: "" };
        const failure: DeviceFailure = { outcome: "device_changed", message: changedSize };
        device.fail(failure);
        device.file.reconcile();
        return failure;
      },
      this.#answerTimeoutMs,
      this.#clock,
    );
    return came ?? { outcome: "pending", message: `device file ${JSON.stringify(device.config.path)} is being opened` };
  }

  async #detach(order: DeviceOrder, device: Device): Promise<Came> {
    if (device.released) return { outcome: "already", message: "" };
    device.detach();
    const came = await this.#devices.condition.until<Came>(
      () => {
        if (!isCurrentOrder(this.#ledger.memory, order)) return this.#overtaken(order);
        return device.released ? { outcome: "done", message: "" } : undefined;
      },
      this.#answerTimeoutMs,
      this.#clock,
    );
    const message = `device file ${JSON.stringify(device.config.path)} is ${device.file.phase}, with ${device.inFlight} operations in flight`;
    return came ?? { outcome: "pending", message };
  }

  async #replacedUnderneath(device: Device): Promise<string | undefined> {
    let same: boolean | undefined;
    void device.file.isSameFile().then((result) => {
      same = result;
      this.#devices.condition.notify();
    });
    await this.#devices.condition.until(() => same, this.#answerTimeoutMs, this.#clock);
    if (same !== false) return undefined;
    return `path ${JSON.stringify(device.config.path)} of device ${device.id} names another file than the one that is held: detach the device and attach it again`;
  }

  #overtaken(order: DeviceOrder): Came {
    return { outcome: "outdated", message: overtaken(this.#ledger.memory, order).message };
  }
}

type Came = Pick<DeviceOutcome, "outcome" | "message">;

function configuredOtherwise(device: Device, expected: ExpectedDevice): string | undefined {
  const { path, offsetBytes, blockSizeBytes, serialNumber } = device.config;
  return (
    differs(device, "path", path, expected.path) ??
    differs(device, "offset_bytes", offsetBytes, expected.offsetBytes) ??
    differs(device, "block_size_bytes", blockSizeBytes, expected.blockSizeBytes) ??
    // A serial number that one side could not read says nothing.
    (serialNumber !== "" && expected.serialNumber !== ""
      ? differs(device, "serial_number", serialNumber, expected.serialNumber)
      : undefined)
  );
}

function sizedOtherwise(device: Device, expected: ExpectedDevice): string | undefined {
  return differs(device, "size_bytes", device.sizeBytes, expected.sizeBytes);
}

function differs(device: Device, what: string, is: string | number, registered: string | number): string | undefined {
  if (is === registered) return undefined;
  return `device ${device.id} has ${what} ${JSON.stringify(is)}, but ${JSON.stringify(registered)} is registered`;
}
