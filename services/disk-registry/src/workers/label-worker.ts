import { type DeviceId, UnavailableError } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import { beginLabel, completeLabel, hostToLabel, type LabelOrder } from "../model/devices/label-orders.js";
import type { Leader } from "../model/devices/orders.js";
import { leaderStamp, outcomeOf } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

/**
 * Has agents label devices with slices, and remove the labels of devices that leave. Each try has a session and a label of
 * its own: a try whose answer is lost leaves a label that the next one replaces.
 */
export class LabelWorker {
  constructor(private readonly context: WorkContext) {}

  async process(deviceId: DeviceId, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, agents, limits, fleet, random } = this.context;
    const leader = fleet.leader();
    const host = await tablet.read((tables) => hostToLabel(tables, deviceId));
    if (host === undefined) return "done";
    // The registry must learn the session numbers that the agent remembers before it gives one.
    await agents.introduce(host, limits.agentTimeoutMs);
    const order = await tablet.transact((tx) => beginLabel(tx, deviceId));
    if (order === undefined) return "done";
    const labelId = newLabelId(random);
    await this.#ask(order, order.kind === "write" ? labelId : undefined, leader, signal);
    await tablet.transact((tx) => completeLabel(tx, order, labelId));
    // The device may have been changed while its label was written.
    return { retryAfterMs: 0 };
  }

  async #ask(order: LabelOrder, labelId: string | undefined, leader: Leader, signal: AbortSignal): Promise<void> {
    const { agents, limits } = this.context;
    const { host, sessionNumber } = order;
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
