import { type DeviceId, UnavailableError } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import {
  beginLabel,
  completeLabel,
  hostToLabel,
  isLabelDueStill,
  type LabelOrder,
} from "../model/devices/label-orders.js";
import type { Leader } from "../model/devices/orders.js";
import { leaderStamp, outcomeOf } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

/** An order, and the label that it writes. */
interface Try {
  readonly order: LabelOrder;
  readonly labelId: string;
}

/**
 * Has agents label devices with slices, and remove the labels of devices that leave. Each try has a session and a label of
 * its own: a try whose answer is lost leaves a label that the next one replaces.
 */
export class LabelWorker {
  /** Tries whose write goes on, by device. They are asked about again, because the session of another try would end the write. */
  readonly #pending = new Map<DeviceId, Try>();

  constructor(private readonly context: WorkContext) {}

  async process(deviceId: DeviceId, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, agents, limits, fleet } = this.context;
    const leader = fleet.leader();
    const host = await tablet.read((tables) => hostToLabel(tables, deviceId));
    if (host === undefined) {
      this.#pending.delete(deviceId);
      return "done";
    }
    // The registry must learn the session numbers that the agent remembers before it gives one.
    await agents.introduce(host, limits.agentTimeoutMs);
    const asked = (await this.#stillPending(deviceId)) ?? (await this.#begin(deviceId));
    if (asked === undefined) return "done";
    await this.#ask(asked, leader, signal);
    await tablet.transact((tx) => completeLabel(tx, asked.order, asked.labelId));
    // The device may have been changed while its label was written.
    return { retryAfterMs: 0 };
  }

  /** Returns the try whose write goes on; undefined when it is due no more. */
  async #stillPending(deviceId: DeviceId): Promise<Try | undefined> {
    const pending = this.#pending.get(deviceId);
    this.#pending.delete(deviceId);
    if (pending === undefined) return undefined;
    const isDue = await this.context.tablet.read((tables) => isLabelDueStill(tables, pending.order));
    return isDue ? pending : undefined;
  }

  async #begin(deviceId: DeviceId): Promise<Try | undefined> {
    const { tablet, random } = this.context;
    const order = await tablet.transact((tx) => beginLabel(tx, deviceId));
    return order && { order, labelId: newLabelId(random) };
  }

  async #ask(asked: Try, leader: Leader, signal: AbortSignal): Promise<void> {
    const { agents, limits } = this.context;
    const { order } = asked;
    const { host, sessionNumber } = order;
    const labelId = order.kind === "write" ? asked.labelId : undefined;
    const { deviceId, sizeBytes, sliceBytes = 0, offsetBytes } = order.device;
    const device = { fleetId: leader.tabletId, deviceId, sizeBytes, sliceBytes, offsetBytes };
    const label = labelId === undefined ? undefined : { ...device, labelId };
    const place = { deviceId, sizeBytes: order.sizeBytes, sessionNumber };
    const request = { bootId: host.bootId, stamp: leaderStamp(leader), ...place, label };
    const deadlineMs = limits.agentTimeoutMs;
    const answer = await agents.order(host, { leader, deadlineMs }, (client) =>
      client.writeLabel(request, { signal, deadlineMs }),
    );
    const outcome = answer.outcome && outcomeOf(answer.outcome);
    if (outcome?.code === "DONE" && answer.label?.labelId === labelId) return;
    if (outcome?.code === "PENDING") this.#pending.set(deviceId, asked);
    const said = outcome === undefined ? "the answer has no outcome" : `${outcome.code}: ${outcome.message}`;
    throw new UnavailableError(`the label of device ${deviceId} is not written: ${said}`);
  }
}

/** Returns 32 random hex digits. */
function newLabelId(random: () => number): string {
  const part = (): string =>
    Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  return part() + part() + part() + part();
}
