import { type DeviceId, messageOf, UnavailableError } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import {
  abandonEraseSession,
  beginErase,
  completeErase,
  type EraseOrder,
  hostToErase,
  recordEraseFailure,
} from "../model/devices/erase.js";
import type { DeviceOutcome, Leader } from "../model/devices/orders.js";
import { pendingOf } from "../model/devices/pending.js";
import type { EraseState } from "../model/devices/removal-erase.js";
import { eraseSessionOf } from "../model/store/runs.js";
import type { Device, Pending } from "../model/store/schema.js";
import { leaderStamp, outcomeOf } from "../requests/wire.js";
import { needsNewSession } from "./session-grant.js";
import type { WorkContext } from "./work-context.js";

interface Progress {
  readonly sessionNumber: number;
  readonly erasedBytes: number;
  readonly pending: Pending | undefined;
}

/** Has a dirty, free, ATTACHED device erased by its agent, under its own session. */
export class EraseWorker {
  /** Progress of running erases, as agents last reported. */
  readonly #progress = new Map<DeviceId, Progress>();

  /** Sessions of erases that have ended and that agents may remember still, by device. */
  readonly #erased = new Map<DeviceId, number>();

  /** Failed tries by device. Kept in memory only: a new leader starts from zero. */
  readonly #failedTries = new Map<DeviceId, number>();

  constructor(private readonly context: WorkContext) {}

  stateOf(device: Device): EraseState {
    const progress = this.#progress.get(device.deviceId);
    const { erasedBytes, pending } =
      progress?.sessionNumber === eraseSessionOf(device) ? progress : { erasedBytes: 0, pending: undefined };
    return { erasedBytes, pending, failedTries: this.#failedTries.get(device.deviceId) ?? 0 };
  }

  async process(deviceId: DeviceId, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, agents, limits, fleet } = this.context;
    const leader = fleet.leader();
    const host = await tablet.read((tables) => hostToErase(tables, deviceId));
    // The registry must learn the session numbers that the agent remembers before it assigns one to the erase;
    // otherwise it could reuse a number.
    if (host !== undefined) await agents.introduce(host, limits.agentTimeoutMs);
    const order = await tablet.transact((tx) => beginErase(tx, deviceId));
    if (order === undefined) {
      this.#forget(deviceId);
      return "done";
    }
    try {
      const isErased = this.#erased.get(deviceId) === order.sessionNumber;
      return await this.#settle(order, isErased ? "erased" : await this.#ask(order, leader, signal), leader);
    } catch (error) {
      signal.throwIfAborted();
      this.#failedTries.set(deviceId, (this.#failedTries.get(deviceId) ?? 0) + 1);
      await tablet.transact((tx) => recordEraseFailure(tx, deviceId, order.sessionNumber, messageOf(error)));
      throw error;
    }
  }

  #forget(deviceId: DeviceId): void {
    this.#progress.delete(deviceId);
    this.#failedTries.delete(deviceId);
    this.#erased.delete(deviceId);
  }

  async #ask(order: EraseOrder, leader: Leader, signal: AbortSignal): Promise<DeviceOutcome | undefined> {
    const { agents, limits, clock } = this.context;
    const { host, deviceId, sessionNumber, range } = order;
    const request = { bootId: host.bootId, stamp: leaderStamp(leader), sessionNumber, deviceId, ...range };
    const deadlineMs = limits.agentTimeoutMs;
    const { outcome, erasedBytes } = await agents.order(host, { leader, deadlineMs }, (client) =>
      client.eraseDevice(request, { signal, deadlineMs }),
    );
    const isOfRun = outcome?.deviceId === deviceId && outcome.offsetBytes === range.offsetBytes;
    const told = isOfRun ? outcomeOf(outcome) : undefined;
    const pending = told?.code === "PENDING" ? pendingOf(told, undefined, clock.nowMs()) : undefined;
    this.#progress.set(deviceId, { sessionNumber, erasedBytes, pending });
    return told;
  }

  /**
   * Has the agent forget the erased run. While it remembers the erase, it refuses an earlier session that grows over the
   * run.
   */
  async #closeSession(order: EraseOrder, leader: Leader): Promise<void> {
    const { agents, limits } = this.context;
    const { host, deviceId, sessionNumber, range } = order;
    const isWhole = range.sizeBytes === 0;
    const request = {
      bootId: host.bootId,
      stamp: leaderStamp(leader),
      sessionNumber,
      deviceIds: isWhole ? [deviceId] : [],
      runs: isWhole ? [] : [{ deviceId, ...range }],
    };
    const deadlineMs = limits.agentTimeoutMs;
    const { outcomes } = await agents.order(host, { leader, deadlineMs }, (client) =>
      client.closeSession(request, { deadlineMs }),
    );
    const told = outcomes.map(outcomeOf).find(({ code }) => code !== "DONE" && code !== "ALREADY");
    if (told !== undefined || outcomes.length === 0)
      throw new UnavailableError(
        `the erased run is not forgotten: ${told?.code ?? "no answer"} ${told?.message ?? ""}`.trim(),
      );
  }

  async #settle(order: EraseOrder, outcome: DeviceOutcome | "erased" | undefined, leader: Leader): Promise<WorkResult> {
    const { tablet, limits } = this.context;
    const { deviceId, sessionNumber } = order;
    if (outcome === "erased" || outcome?.code === "DONE" || outcome?.code === "ALREADY") {
      // A leader that does not hear that the run was forgotten erases it again: the number is below the agent's floor.
      this.#erased.set(deviceId, sessionNumber);
      if (order.isForgotten) await this.#closeSession(order, leader);
      await tablet.transact((tx) => completeErase(tx, deviceId, sessionNumber));
      this.#forget(deviceId);
      // The device may have further runs to erase.
      return { retryAfterMs: 0 };
    }
    if (outcome?.code === "PENDING") return { retryAfterMs: limits.erasePollIntervalMs };
    const said =
      outcome === undefined ? "the agent's answer does not name the device" : `${outcome.code}: ${outcome.message}`;
    const text = `device ${deviceId} was not erased: ${said}`;
    // After a failed sync, an agent reports no later sync of that session as a success, so the erase needs a new
    // session.
    if (needsNewSession(outcome?.code) || outcome?.code === "IO_ERROR")
      await tablet.transact((tx) => abandonEraseSession(tx, deviceId, sessionNumber, text));
    throw new UnavailableError(text);
  }
}
