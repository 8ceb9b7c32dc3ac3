import type { DeviceId, Stamp } from "@diskmesh/domain";
import { histogramOf } from "@diskmesh/metrics";
import type { Ledger } from "../cache/ledger.js";
import { agentMetrics } from "../metrics.js";
import { type AgentMemory, decideEach } from "../model/memory.js";
import {
  decideCloseSession,
  decideOpenSession,
  isCurrentSession,
  type SessionVerdict,
  type SessionWish,
  superseded,
} from "../model/sessions.js";
import type { Device } from "./device.js";
import type { DeviceTable } from "./device-table.js";
import type { DeviceOutcome } from "./outcome.js";

type Came = Omit<DeviceOutcome, "deviceId" | "stamp">;

interface OpenOptions {
  /** Maximum wait for a grant in ms; by default the answer timeout of an order. */
  readonly waitMs?: number;
  /** Makes a further change of the memory in the same write. Not called when a device refuses the session. */
  readonly andRemember?: () => void;
}

/**
 * Opens and ends sessions. Deciding blocks the I/O of lower sessions at once; the grant waits until that I/O has ended.
 */
export class SessionOrders {
  readonly #ledger: Ledger;
  readonly #devices: DeviceTable;

  constructor(ledger: Ledger, devices: DeviceTable) {
    this.#ledger = ledger;
    this.#devices = devices;
  }

  /**
   * Opens the session on each device: one write stores it for all devices, then each device grants it once its I/O of
   * lower sessions has ended.
   */
  async open(
    deviceIds: readonly DeviceId[],
    wish: SessionWish,
    stamp: Stamp,
    { waitMs, andRemember = () => {} }: OpenOptions = {},
  ): Promise<DeviceOutcome[]> {
    const startedAtMs = performance.now();
    const verdicts = this.#decide(deviceIds, (memory, deviceId) => decideOpenSession(memory, deviceId, wish));
    if (deviceIds.every((deviceId) => (verdicts.get(deviceId)?.verdict ?? "outdated") !== "outdated")) andRemember();
    // Wakes waiting I/O of lower sessions, which fails now.
    this.#devices.changes.touch();
    await this.#ledger.durable();
    return Promise.all(
      deviceIds.map(async (deviceId) => {
        const verdict = verdicts.get(deviceId);
        const came: Came = verdict
          ? await this.#grant(deviceId, wish, verdict, waitMs)
          : { outcome: "unknown_device", message: `host ${this.#ledger.memory.hostId} has no device ${deviceId}` };
        measure(wish, came, performance.now() - startedAtMs);
        return { deviceId, ...came, stamp };
      }),
    );
  }

  async #grant(
    deviceId: DeviceId,
    wish: SessionWish,
    verdict: SessionVerdict,
    waitMs: number | undefined,
  ): Promise<Came> {
    if (verdict.verdict === "outdated") return { outcome: "outdated", message: verdict.message };
    const device = this.#devices.get(deviceId);
    const isServed = device.attached && device.whyChanged === undefined;
    if (device.grantedSession === wish.number && isServed && this.#isCurrent(deviceId, wish))
      return { outcome: "already", message: "" };
    const quiet = await this.#devices.until(
      () => (!this.#isCurrent(deviceId, wish) || device.isQuietBelow(wish.number) ? true : undefined),
      waitMs,
    );
    if (!this.#isCurrent(deviceId, wish)) return this.#superseded(deviceId, wish.number);
    if (!quiet) return whileBusy(device, wish.number);
    // A fence is stored without an open file, and applies when the file is opened later.
    const isFence = purposeOf(wish) === "fence";
    const changed = device.whyChanged;
    if (changed !== undefined && !isFence) return { outcome: "device_changed", message: changed };
    device.grant(wish.number);
    if (device.attached || isFence) return { outcome: "done", message: "" };
    return { outcome: "not_attached", message: `device ${deviceId} is not attached` };
  }

  /** Ends the session on each device, and waits until its I/O has ended. */
  async close(deviceIds: readonly DeviceId[], number: number, stamp: Stamp): Promise<DeviceOutcome[]> {
    const changed = this.#decide(deviceIds, (before, deviceId) => {
      const { memory, changed: verdict } = decideCloseSession(before, deviceId, number);
      return { memory, verdict };
    });
    await this.#ledger.durable();
    return Promise.all(
      deviceIds.map(async (deviceId): Promise<DeviceOutcome> => {
        const device = this.#devices.find(deviceId);
        if (!device) {
          const message = `host ${this.#ledger.memory.hostId} has no device ${deviceId}`;
          return { deviceId, outcome: "unknown_device", message, stamp };
        }
        const quiet = await this.#devices.until(() => (device.isQuietBelow(number + 1) ? true : undefined));
        if (!quiet) return { deviceId, ...whileBusy(device, number + 1), stamp };
        return { deviceId, outcome: changed.get(deviceId) ? "done" : "already", message: "", stamp };
      }),
    );
  }

  /** Decides for each existing device, and stores all decisions in the memory. */
  #decide<Verdict>(
    deviceIds: readonly DeviceId[],
    decide: (memory: AgentMemory, deviceId: DeviceId) => { memory: AgentMemory; verdict: Verdict },
  ): ReadonlyMap<DeviceId, Verdict> {
    const known = deviceIds.filter((deviceId) => this.#devices.has(deviceId));
    const { memory, verdicts } = decideEach(this.#ledger.memory, known, decide);
    this.#ledger.remember(memory);
    return new Map(known.map((deviceId, index) => [deviceId, verdicts[index] as Verdict]));
  }

  #isCurrent(deviceId: DeviceId, wish: SessionWish): boolean {
    return isCurrentSession(this.#ledger.memory, deviceId, wish.number);
  }

  #superseded(deviceId: DeviceId, number: number): Came {
    const current = this.#ledger.memory.devices.get(deviceId)?.session;
    if (!current) throw new Error(`the agent has no session of device ${deviceId}`);
    return { outcome: "outdated", message: superseded(deviceId, number, current) };
  }
}

const purposeOf = ({ purpose, holderHostId }: SessionWish) =>
  purpose === "disk" && holderHostId === "" ? "fence" : purpose;

function measure(wish: SessionWish, { outcome }: Came, durationMs: number): void {
  // Skips repetitions, which wait for nothing.
  if (outcome === "already") return;
  const told = outcome === "pending" ? outcome : outcome === "done" ? "granted" : "refused";
  histogramOf(agentMetrics.fences).record(durationMs / 1_000, { purpose: purposeOf(wish), outcome: told });
}

function whileBusy(device: Device, sessionNumber: number): Came {
  const waiting = device.waitingBelow(sessionNumber);
  if (!device.borrower.isGoneBelow(sessionNumber))
    return { outcome: "pending", message: `the process of an earlier session still has device ${device.id}`, waiting };
  const message = `${waiting.inFlightOperations} operations of sessions before ${sessionNumber} are in flight on device ${device.id}`;
  return { outcome: "pending", message, waiting };
}
