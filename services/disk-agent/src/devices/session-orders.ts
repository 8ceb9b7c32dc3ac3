import type { Stamp } from "@diskmesh/domain";
import { histogramOf } from "@diskmesh/metrics";
import type { Ledger } from "../cache/ledger.js";
import { agentMetrics } from "../metrics.js";
import { type AgentMemory, decideEach } from "../model/memory.js";
import { type DeviceRun, describeRun, type Run } from "../model/runs.js";
import {
  decideCloseSession,
  decideOpenSession,
  forgetErased,
  isCurrentSession,
  type SessionVerdict,
  type SessionWish,
  sessionAt,
  whyOutdated,
} from "../model/sessions.js";
import type { Device } from "./device.js";
import type { DeviceTable } from "./device-table.js";
import type { Waiting } from "./in-flight.js";
import type { DeviceOutcome } from "./outcome.js";

type Came = Omit<DeviceOutcome, keyof DeviceRun | "stamp">;

interface OpenOptions {
  /** Maximum wait for a grant in ms; by default the answer timeout of an order. */
  readonly waitMs?: number;
  /** Makes a further change of the memory in the same write. Not called when a run refuses the session. */
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
   * Opens the session on each run: one write stores it for all runs, then each run grants it once its I/O of lower
   * sessions has ended.
   */
  async open(
    runs: readonly DeviceRun[],
    wish: SessionWish,
    stamp: Stamp,
    { waitMs, andRemember = () => {} }: OpenOptions = {},
  ): Promise<DeviceOutcome[]> {
    const startedAtMs = performance.now();
    const verdicts = this.#decide(runs, (memory, run) => decideOpenSession(memory, run, wish));
    if (runs.every((run) => ["supersede", "same"].includes(verdicts.get(run)?.verdict ?? ""))) andRemember();
    // Wakes waiting I/O of lower sessions, which fails now.
    this.#devices.changes.touch();
    await this.#ledger.durable();
    return Promise.all(
      runs.map(async (run) => {
        const verdict = verdicts.get(run);
        const came = verdict ? await this.#grant(run, wish, verdict, waitMs) : this.#unknown(run);
        measure(wish, came, performance.now() - startedAtMs);
        return { ...run, ...came, stamp };
      }),
    );
  }

  async #grant(
    ordered: DeviceRun,
    { number, ...wish }: SessionWish,
    { verdict, ...refusal }: SessionVerdict,
    waitMs: number | undefined,
  ): Promise<Came> {
    if (verdict === "outdated" || verdict === "below_floor") return { outcome: verdict, message: "", ...refusal };
    const { memory } = this.#ledger;
    // The run may have grown since the order was sent first.
    const run = { ...ordered, sizeBytes: sessionAt(memory, ordered.deviceId, ordered.offsetBytes)?.sizeBytes ?? 0 };
    const device = this.#devices.get(run.deviceId);
    const isServed = device.attached && device.whyChanged === undefined;
    const isCurrent = () => isCurrentSession(this.#ledger.memory, run, number);
    const granted = device.granted.at(run.offsetBytes);
    const isGranted = granted?.sessionNumber === number && granted.sizeBytes === run.sizeBytes;
    if (isGranted && isServed && isCurrent()) return { outcome: "already", message: "" };
    const quiet = await this.#devices.until(
      () => (!isCurrent() || device.isQuietBelow(number, run) ? true : undefined),
      waitMs,
    );
    if (!isCurrent()) return this.#superseded(run, number);
    if (!quiet) return whileBusy(device, number, run);
    // A fence is stored without an open file, and applies when the file is opened later.
    const isFence = purposeOf(wish) === "fence";
    const changed = device.whyChanged;
    if (changed !== undefined && !isFence) return { outcome: "device_changed", message: changed };
    device.granted.grant(number, run);
    if (device.attached || isFence) return { outcome: "done", message: "" };
    return { outcome: "not_attached", message: `device ${run.deviceId} is not attached` };
  }

  /**
   * Ends the session on each run, and waits until its I/O has ended. Forgets the run when the session is one of an erase.
   */
  async close(runs: readonly DeviceRun[], number: number, stamp: Stamp): Promise<DeviceOutcome[]> {
    const changed = this.#decide(runs, (before, run) => {
      const { memory, changed: verdict } = decideCloseSession(before, run, number);
      return { memory, verdict };
    });
    await this.#ledger.durable();
    const outcomes = await Promise.all(
      runs.map(async (run): Promise<DeviceOutcome> => {
        const device = this.#devices.find(run.deviceId);
        if (!device) return { ...run, ...this.#unknown(run), stamp };
        const quiet = await this.#devices.until(() => (device.isQuietBelow(number + 1, run) ? true : undefined));
        if (!quiet) return { ...run, ...whileBusy(device, number + 1, run), stamp };
        this.#ledger.remember(forgetErased(this.#ledger.memory, run, number));
        return { ...run, outcome: changed.get(run) ? "done" : "already", message: "", stamp };
      }),
    );
    await this.#ledger.durable();
    return outcomes;
  }

  /** Decides for each run of an existing device, and stores all decisions in the memory. */
  #decide<Verdict>(
    runs: readonly DeviceRun[],
    decide: (memory: AgentMemory, run: DeviceRun) => { memory: AgentMemory; verdict: Verdict },
  ): ReadonlyMap<DeviceRun, Verdict> {
    const known = runs.filter(({ deviceId }) => this.#devices.has(deviceId));
    const { memory, verdicts } = decideEach(this.#ledger.memory, known, decide);
    this.#ledger.remember(memory);
    return new Map(known.map((run, index) => [run, verdicts[index] as Verdict]));
  }

  #unknown({ deviceId }: DeviceRun): Came {
    return { outcome: "unknown_device", message: `host ${this.#ledger.memory.hostId} has no device ${deviceId}` };
  }

  #superseded(run: DeviceRun, number: number): Came {
    return { outcome: "outdated", message: whyOutdated(this.#ledger.memory, run, number) ?? "" };
  }
}

const purposeOf = ({ purpose, holderHostId }: Pick<SessionWish, "purpose" | "holderHostId">) =>
  purpose === "disk" && holderHostId === "" ? "fence" : purpose;

function measure(wish: SessionWish, { outcome }: Came, durationMs: number): void {
  // Skips repetitions, which wait for nothing.
  if (outcome === "already") return;
  const told = outcome === "pending" ? outcome : outcome === "done" ? "granted" : "refused";
  histogramOf(agentMetrics.fences).record(durationMs / 1_000, { purpose: purposeOf(wish), outcome: told });
}

/** Returns what of lower sessions on the run's bytes a grant waits for. */
export function waitingBelow(device: Device, sessionNumber: number, run: Run): Waiting {
  return (
    device.borrowers.waitingBelow(sessionNumber, run) ??
    device.legs.waitingBelow(sessionNumber, run) ??
    device.io.waitingBelow(sessionNumber, run)
  );
}

function whileBusy(device: Device, sessionNumber: number, run: DeviceRun): Came {
  const waiting = waitingBelow(device, sessionNumber, run);
  const where = describeRun(run);
  let message = `${waiting.inFlightOperations} operations of sessions before ${sessionNumber} are in flight on ${where}`;
  if (!device.borrowers.areGoneBelow(sessionNumber, run))
    message = `the process of an earlier session still has ${where}`;
  else if (!device.legs.areGoneBelow(sessionNumber, run))
    message = `the drive has not answered all I/O of an earlier session on ${where}`;
  return { outcome: "pending", message, waiting };
}
