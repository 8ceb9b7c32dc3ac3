import type { RunRecord, Stamp } from "@diskmesh/domain";
import { histogramOf } from "@diskmesh/metrics";
import { agentMetrics } from "../base/metrics.js";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import type { Waiting } from "../files/in-flight.js";
import type { Claims } from "../labels/claims.js";
import { type AgentMemory, decideEach } from "../model/memory.js";
import type { OrderedRun } from "../model/run-record.js";
import { type DeviceRun, describeRun, type Run } from "../model/runs.js";
import {
  decideCloseSession,
  decideOpenSession,
  forgetErased,
  isCurrentSession,
  type SessionWish,
  sessionAt,
  whyOutdated,
} from "../model/sessions.js";

const NONE: ReadonlyMap<DeviceRun, Came> = new Map();

const bytesOf = ({ deviceId, offsetBytes, sizeBytes }: DeviceRun): DeviceRun => ({ deviceId, offsetBytes, sizeBytes });

type Came = Omit<DeviceOutcome, keyof DeviceRun | "stamp">;

interface OpenOptions {
  /** Maximum wait for a grant in ms; by default the answer timeout of an order. */
  readonly waitMs?: number;
  /** Makes a further change of the memory in the same write. Not called when a run refuses the session. */
  readonly andRemember?: () => void;
  /** Session that a new one is to follow; 0 for any. */
  readonly formerNumber?: number;
}

/**
 * Opens and ends sessions. Deciding blocks the I/O of lower sessions at once; the grant waits until that I/O has ended.
 */
export class SessionOrders {
  readonly #ledger: Ledger;
  readonly #devices: DeviceTable;
  /** Tables and records of runs, on the devices. */
  readonly claims: Claims;

  constructor(ledger: Ledger, devices: DeviceTable, claims: Claims) {
    this.#ledger = ledger;
    this.#devices = devices;
    this.claims = claims;
  }

  /**
   * Opens the session on each run: runs with a record enter the table of their device, one write stores the session for all
   * runs, then each run grants it once its I/O of lower sessions has ended.
   */
  async open(
    runs: readonly OrderedRun[],
    wish: SessionWish,
    stamp: Stamp,
    { waitMs, andRemember = () => {}, formerNumber = 0 }: OpenOptions = {},
  ): Promise<DeviceOutcome[]> {
    const startedAtMs = performance.now();
    const refusals = runs.some(({ record }) => record !== undefined)
      ? await this.#prepare(runs, wish, formerNumber)
      : NONE;
    const prepared = refusals.size === 0 ? runs : runs.filter((run) => !refusals.has(run));
    const verdicts = this.#decide(prepared, (memory, run) => decideOpenSession(memory, run, wish, formerNumber));
    if (runs.every((run) => verdicts.get(run) === "grant")) andRemember();
    // Wakes waiting I/O of lower sessions, which fails now.
    this.#devices.changes.touch();
    await this.#ledger.durable();
    return Promise.all(
      runs.map(async (run) => {
        const verdict = verdicts.get(run) ?? refusals.get(run) ?? this.#unknown(run);
        const came = verdict === "grant" ? await this.#grant(run, wish, waitMs) : verdict;
        measure(wish, came, performance.now() - startedAtMs);
        return { ...bytesOf(run), ...came, stamp };
      }),
    );
  }

  /**
   * Enters runs with a record into the tables of their devices, and writes their records. That is durable before the session
   * is remembered, because the agent's next life grants what is remembered. Returns the runs for which it failed.
   */
  async #prepare(
    runs: readonly OrderedRun[],
    wish: SessionWish,
    formerNumber: number,
  ): Promise<ReadonlyMap<DeviceRun, Came>> {
    const refusals = await Promise.all(runs.map((run) => this.#prepareRun(run, wish, formerNumber)));
    return new Map(runs.flatMap((run, at) => (refusals[at] === undefined ? [] : [[run, refusals[at]]])));
  }

  async #prepareRun(run: OrderedRun, wish: SessionWish, formerNumber: number): Promise<Came | undefined> {
    const device = this.#devices.find(run.deviceId);
    if (run.record === undefined || wish.holderHostId === "" || device === undefined) return undefined;
    if (decideOpenSession(this.#ledger.memory, run, wish, formerNumber).verdict !== "grant") return undefined;
    if (device.whyChanged !== undefined) return { outcome: "device_changed", message: device.whyChanged };
    if (!device.attached) return { outcome: "not_attached", message: `device ${run.deviceId} is not attached` };
    const { tables, records } = this.claims;
    const isEntered = tables.has(run, wish.diskId);
    const refusal = isEntered ? undefined : await tables.enter(run, wish.diskId, wish.number);
    return refusal ?? (await records.write(device, run, recordOf(run.record, wish)));
  }

  /** Has the run say that its disk is clean, where the order says so. The session does not depend on it. */
  async #noteEnd(device: Device, { record, ...run }: OrderedRun, wish: SessionWish): Promise<void> {
    if (record !== undefined && wish.holderHostId === "" && device.attached)
      await this.claims.records.tryWrite(device, run, recordOf(record, wish));
  }

  async #grant(ordered: OrderedRun, wish: SessionWish, waitMs: number | undefined): Promise<Came> {
    const { number } = wish;
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
    if (isFence) await this.#noteEnd(device, run, wish);
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
        const forgotten = forgetErased(this.#ledger.memory, run, number);
        const kept = forgotten === this.#ledger.memory ? undefined : await this.claims.tables.remove(run, number);
        if (kept !== undefined) return { ...run, ...kept, stamp };
        this.#ledger.remember(forgetErased(this.#ledger.memory, run, number));
        this.#devices.changes.touch();
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

const recordOf = (record: RunRecord, { diskId, number }: SessionWish) => ({ ...record, diskId, sessionNumber: number });

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
  return device.legs.waitingBelow(sessionNumber, run) ?? device.io.waitingBelow(sessionNumber, run);
}

function whileBusy(device: Device, sessionNumber: number, run: DeviceRun): Came {
  const waiting = waitingBelow(device, sessionNumber, run);
  const where = describeRun(run);
  let message = `${waiting.inFlightOperations} operations of sessions before ${sessionNumber} are in flight on ${where}`;
  if (!device.legs.areGoneBelow(sessionNumber, run))
    message = `the drive has not answered all I/O of an earlier session on ${where}`;
  return { outcome: "pending", message, waiting };
}
