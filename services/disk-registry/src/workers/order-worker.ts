import type { Stamp } from "@diskmesh/domain";
import { backoffMs, type HostId, messageOf } from "@diskmesh/domain";
import type { WorkResult } from "@diskmesh/service";
import { notePhase } from "../metrics/phases.js";
import { endedSessions } from "../model/devices/ended-sessions.js";
import {
  applyOutcomes,
  type DeviceOutcome,
  type HostOrders,
  isOfThisStart,
  isToldOf,
  type Leader,
  type OrderKind,
  planOrders,
  recordOrderFailure,
  type Settled,
  stampOf,
  whyNotToldToLetGo,
} from "../model/devices/orders.js";
import type { Device, Host } from "../model/store/schema.js";
import { outcomeOf } from "../requests/wire.js";
import type { WorkContext } from "./work-context.js";

interface Tries {
  readonly generation: number;
  readonly count: number;
  readonly dueAtMs: number;
}

interface Answer {
  readonly kind: OrderKind;
  readonly ordered: readonly Device[];
  readonly outcomes: readonly DeviceOutcome[] | undefined;
  readonly error: string;
}

/**
 * Delay between an answer and the host's next order, so that requests made meanwhile share the order. Each order costs
 * a call, a commit here and a commit at the agent, however many devices it has.
 */
const GATHER_MS = 50;

/**
 * Sends each host its attach and detach orders until all are confirmed; each host has one order in flight. A device
 * that keeps failing has its own backoff and delays no other device.
 */
export class OrderWorker {
  /**
   * Failed tries by host and device. Kept in memory only: after a restart or a registration everything is tried at
   * once.
   */
  readonly #tries = new Map<HostId, Map<string, Tries>>();
  /** Monotonic time of the last answer by host. */
  readonly #answeredAtMs = new Map<HostId, number>();

  constructor(
    private readonly context: WorkContext,
    private readonly onConfirmed: (devices: readonly Device[]) => void,
  ) {}

  /** Clears the backoff of all devices of a host, because the host registered or changed. */
  forgetTries(hostId: HostId): void {
    this.#tries.delete(hostId);
  }

  /** Returns the monotonic time of a failed device's next try; undefined when it is not waiting. */
  dueAtMs(device: Device): number | undefined {
    return this.#triesOf(device)?.dueAtMs;
  }

  async process(hostId: HostId, signal: AbortSignal): Promise<WorkResult> {
    const { tablet, limits } = this.context;
    await this.#gather(hostId, signal);
    // The leader is read before the plan. When another generation is claimed in between, AgentClients sends nothing and
    // throws.
    const leader = this.context.fleet.leader();
    const nowMs = this.context.clock.monotonicMs();
    const isDue = (device: Device): boolean => (this.#triesOf(device)?.dueAtMs ?? 0) <= nowMs;
    // The read waits until its data is durable, because only durable orders may be sent.
    const orders = await tablet.read((tables) =>
      planOrders(tables, hostId, { maxDevices: limits.maxDevicesPerOrder, isDue }),
    );
    if (orders === undefined) return this.#nextLook(hostId);
    const answers = await this.#send(orders, leader, signal);
    this.#answeredAtMs.set(hostId, this.context.clock.monotonicMs());
    const settled = await this.#apply(orders.host, answers, leader);
    this.#noteTotals(answers, settled);
    this.#countTries(hostId, answers, settled);
    const confirmed = new Set(settled.flatMap((part) => part.confirmed));
    this.onConfirmed(orders.attach.filter((device) => confirmed.has(device.deviceId)));
    return this.#nextLook(hostId);
  }

  async #gather(hostId: HostId, signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    const answeredAtMs = this.#answeredAtMs.get(hostId);
    if (answeredAtMs === undefined) return;
    this.#answeredAtMs.delete(hostId);
    const leftMs = answeredAtMs + GATHER_MS - clock.monotonicMs();
    if (leftMs > 0) await clock.sleep(leftMs, signal);
  }

  async #send({ host, attach, detach }: HostOrders, leader: Leader, signal: AbortSignal): Promise<readonly Answer[]> {
    const answers: Answer[] = [];
    // Attach and detach run one after another, because each host has one order in flight.
    if (detach.length > 0) answers.push(await this.#order(host, "detach", detach, leader, signal));
    if (attach.length > 0) answers.push(await this.#order(host, "attach", attach, leader, signal));
    return answers;
  }

  async #order(
    host: Host,
    kind: OrderKind,
    ordered: readonly Device[],
    leader: Leader,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { agents, limits, log } = this.context;
    const request = {
      bootId: host.bootId,
      devices: ordered.map((device) => orderMessage(device, kind, stampOf(device, leader))),
    };
    const deadlineMs = limits.agentTimeoutMs;
    const options = { signal, deadlineMs };
    const [sentAtMs, startedMs] = [this.context.clock.nowMs(), this.context.clock.monotonicMs()];
    for (const { attempts, stateChangedAtMs } of ordered)
      if (attempts === 0) notePhase(kind, "queue", sentAtMs - stateChangedAtMs);
    try {
      const response = await agents.order(host, { leader, deadlineMs }, (client) =>
        kind === "attach" ? client.attachDevices(request, options) : client.detachDevices(request, options),
      );
      notePhase(kind, "order", this.context.clock.monotonicMs() - startedMs);
      return { kind, ordered, outcomes: response.outcomes.map(outcomeOf), error: "" };
    } catch (error) {
      signal.throwIfAborted();
      log.info({ hostId: host.hostId, devices: ordered.length, error: messageOf(error) }, `${kind} order failed`);
      return { kind, ordered, outcomes: undefined, error: messageOf(error) };
    }
  }

  /** Applies all answers in one transaction. */
  #apply(host: Host, answers: readonly Answer[], leader: Leader): Promise<readonly Settled[]> {
    const { tablet, clock, config } = this.context;
    const shared = config.serialNumbersOfMany;
    return tablet.transact((tx) =>
      answers.map(({ kind, ordered, outcomes, error }) => {
        if (!isOfThisStart(tx, host)) return { confirmed: [], unsettled: [] };
        if (outcomes !== undefined) return applyOutcomes(tx, kind, ordered, outcomes, leader, clock.nowMs(), shared);
        recordOrderFailure(tx, ordered, error, clock.nowMs());
        return { confirmed: [], unsettled: ordered.map((device) => device.deviceId) };
      }),
    );
  }

  #noteTotals(answers: readonly Answer[], settled: readonly Settled[]): void {
    const nowMs = this.context.clock.nowMs();
    const confirmed = new Set<string>(settled.flatMap((part) => part.confirmed));
    for (const { kind, ordered } of answers)
      for (const { deviceId, stateChangedAtMs } of ordered)
        if (confirmed.has(deviceId)) notePhase(kind, "total", nowMs - stateChangedAtMs);
  }

  #countTries(hostId: HostId, answers: readonly Answer[], settled: readonly Settled[]): void {
    const { clock, limits, random } = this.context;
    const unsettled = new Set<string>(settled.flatMap((part) => part.unsettled));
    const tries = this.#tries.get(hostId) ?? new Map<string, Tries>();
    // All devices of an order share one random draw and one time, so that devices that failed together are retried in
    // one order.
    const [draw, nowMs] = [random(), clock.monotonicMs()];
    for (const device of answers.flatMap((answer) => answer.ordered)) {
      const count = this.#triesOf(device)?.count ?? 0;
      tries.delete(device.deviceId);
      if (!unsettled.has(device.deviceId)) continue;
      const dueAtMs = nowMs + backoffMs(count, limits.backoff, draw);
      tries.set(device.deviceId, { generation: device.generation, count: count + 1, dueAtMs });
    }
    if (tries.size > 0) this.#tries.set(hostId, tries);
    else this.#tries.delete(hostId);
  }

  /**
   * Returns the failed tries of the device's current order; undefined for none. Tries of an earlier generation belong
   * to an earlier order.
   */
  #triesOf(device: Device): Tries | undefined {
    const tries = this.#tries.get(device.hostId)?.get(device.deviceId);
    return tries?.generation === device.generation ? tries : undefined;
  }

  async #nextLook(hostId: HostId): Promise<WorkResult> {
    const dueAtMs = await this.context.tablet.read((tables) => {
      const host = tables.hosts.get(hostId);
      if (host === undefined) this.#answeredAtMs.delete(hostId);
      if (host === undefined || whyNotToldToLetGo(host) !== undefined) return Number.POSITIVE_INFINITY;
      let earliest = Number.POSITIVE_INFINITY;
      for (const device of tables.devices.by("awaitingOrderByHost", hostId)) {
        if (!isToldOf(host, device)) continue;
        earliest = Math.min(earliest, this.#triesOf(device)?.dueAtMs ?? 0);
        if (earliest === 0) break;
      }
      return earliest;
    });
    if (dueAtMs === Number.POSITIVE_INFINITY) {
      this.#tries.delete(hostId);
      return "done";
    }
    return { retryAfterMs: Math.max(0, Math.ceil(dueAtMs - this.context.clock.monotonicMs())) };
  }
}

function orderMessage(device: Device, kind: OrderKind, stamp: Stamp) {
  const { deviceId, path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity = "", label } = device;
  if (kind === "detach") return { deviceId, stamp };
  const expected = { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity };
  return { deviceId, stamp, expected, endedSessionNumber: endedSessions(device), labelId: label?.labelId };
}
