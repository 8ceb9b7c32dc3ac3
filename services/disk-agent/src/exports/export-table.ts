import { type DiskId, type Logger, messageOf, NotFoundError, OutdatedError, UnavailableError } from "@diskmesh/domain";
import { type Clock, withinMs } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { BlockDevices } from "../engines/block-devices.js";
import type { Engine, ServedDisk } from "../engines/engine.js";
import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import type { CopiedTarget } from "../mirror/movable-part.js";
import { decideExport, decideUnexport, devicesOf, isMoving } from "../model/exports.js";
import type { ExportSpec } from "../model/memory.js";
import { checkOrder, interruptedMirror } from "./check-order.js";
import { engineFor } from "./choose-engine.js";
import { type DiskProblem, DiskProblems } from "./disk-problems.js";
import { FirstTries } from "./first-tries.js";
import type { Served } from "./queue-wire.js";
import type { Running } from "./running.js";

/** Time in ms between two tries to serve a disk that its engine has lost. */
const SERVE_AGAIN_MS = 1_000;
/** Wait in ms of a start for each export after one that hangs. */
const NEXT_WAIT_MS = 1_000;

/** Manages the disks served on this host. */
export class ExportTable {
  readonly #ledger: Ledger;
  readonly #devices: DeviceTable;
  readonly #engines: readonly Engine[];
  readonly #blockDevices: BlockDevices;
  readonly #maxEndedExports: number;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #running = new Map<DiskId, Running>();
  /** Session numbers of exports that are remembered but not served yet. */
  readonly #beginning = new Map<DiskId, number>();
  readonly #turns = new Map<DiskId, Promise<void>>();
  /** Orders whose mirror has ended without a decision, as with a former life of the agent. */
  readonly #interrupted = new Map<DiskId, ExportSpec>();
  /** Form of each disk in its session. Its users know one path, whichever engine serves the session on. */
  readonly #forms = new Map<DiskId, { readonly sessionNumber: number; readonly isDevice: boolean }>();
  readonly #firstTries = new FirstTries();
  readonly #problems = new DiskProblems();
  readonly #closing = new AbortController();

  constructor(options: {
    ledger: Ledger;
    devices: DeviceTable;
    /** Engines in order of preference; the last one can serve every disk. */
    engines: readonly Engine[];
    blockDevices: BlockDevices;
    maxEndedExports: number;
    clock: Clock;
    log: Logger;
  }) {
    this.#ledger = options.ledger;
    this.#devices = options.devices;
    this.#engines = options.engines;
    this.#blockDevices = options.blockDevices;
    this.#maxEndedExports = options.maxEndedExports;
    this.#clock = options.clock;
    this.#log = options.log;
  }

  /**
   * Takes over the disks that the kernel has carried on in a current session since a former life of the agent, and ends what
   * that life has left of others. Must run before the devices are opened.
   */
  async adopt(): Promise<void> {
    const specs = [...this.#ledger.memory.exports.values()].flatMap(({ spec }) => spec ?? []);
    await Promise.all(specs.map((spec) => this.#adopt(spec)));
    // A part that was added or has moved has a session of its own.
    const running = specs.filter(({ diskId }) => this.#running.has(diskId));
    const sessions = new Set(running.flatMap((spec) => [spec, ...devicesOf(spec)].map((each) => each.sessionNumber)));
    const isServed = (sessionNumber: number) => sessions.has(sessionNumber);
    await this.#blockDevices.endLeftovers(isServed);
    for (const engine of this.#engines) await engine.endLeftovers?.(isServed);
  }

  /**
   * Serves the remembered exports again. The devices refuse I/O of sessions that were superseded meanwhile. Waits `waitMs`
   * for the first one that hangs, because its device is refused or its host is away, and a second for each other one: their
   * starts go on, and the registry must hear of this host.
   */
  async start(waitMs: number): Promise<void> {
    const exports = [...this.#ledger.memory.exports];
    const start = ([diskId, { spec }]: (typeof exports)[number]) => this.#start(diskId, spec);
    const isAdopted = ([diskId]: (typeof exports)[number]) => this.#running.has(diskId);
    await Promise.all(exports.filter(isAdopted).map(start));
    let patienceMs = waitMs;
    for (const each of exports)
      if (!isAdopted(each) && !(await withinMs(patienceMs, start(each)))) patienceMs = Math.min(waitMs, NEXT_WAIT_MS);
  }

  async #start(diskId: DiskId, spec: ExportSpec | undefined): Promise<void> {
    try {
      if (spec !== undefined && isMoving(spec) && !this.#running.has(diskId)) {
        this.#interrupted.set(diskId, spec);
        this.#log.info({ diskId }, "export waits for the order that ends or repeats its move");
        return;
      }
      await this.#apply(diskId);
    } catch (error) {
      this.#log.error({ diskId, error: messageOf(error) }, "export restart failed");
      this.#problems.noteFault(diskId, error);
      void this.#serveAgain(diskId);
    }
  }

  /**
   * Decides to serve a disk, and puts that into the memory, not yet durably. Throws OutdatedError when the decision is
   * no. The disk is listed at once, so that a registry that no longer wants it can end it.
   */
  intend(spec: ExportSpec): void {
    this.#ledger.remember(decideExport(this.#ledger.memory, spec));
    this.#beginning.set(spec.diskId, spec.sessionNumber);
  }

  /** Serves a disk, and returns the path at which programs of this host open it. Idempotent. */
  async serve(spec: ExportSpec): Promise<string> {
    checkOrder(spec, this.#ledger.memory.hostId, this.#devices, this.#running.get(spec.diskId));
    this.intend(spec);
    try {
      await this.#ledger.durable();
      await this.#apply(spec.diskId);
    } finally {
      if (this.#beginning.get(spec.diskId) === spec.sessionNumber) this.#beginning.delete(spec.diskId);
    }
    // Reads the running export again, because another order may have changed it during the await.
    const running = this.#running.get(spec.diskId);
    if (running?.sessionNumber !== spec.sessionNumber)
      throw new UnavailableError(
        `the export of disk ${spec.diskId} in session ${spec.sessionNumber} was ended while it was being started`,
      );
    return running.served.path;
  }

  /**
   * Ends all exports of the disk up to this session, and refuses them from now on. The caller reports the end only once
   * the ledger is durable: an agent that dies earlier may serve the disk again.
   */
  async end(diskId: DiskId, sessionNumber: number): Promise<void> {
    this.#rememberEnd(diskId, sessionNumber);
    await this.#apply(diskId);
  }

  /**
   * Writes back what the host caches of the disk, takes the disk from its users, and refuses its exports up to this session
   * from now on, which `end` then ends. Throws InvalidStateError (DISK_IN_USE) while the disk has users; the export goes on
   * then. `accept` throws when the order is no longer obeyed. Returns the targets of moves with the bytes that are alike.
   */
  async drain(diskId: DiskId, sessionNumber: number, accept: () => void): Promise<readonly CopiedTarget[]> {
    const find = (): ServedDisk | undefined => {
      const running = this.#running.get(diskId);
      return running && running.sessionNumber <= sessionNumber ? running.served : undefined;
    };
    // Outside of the turn, so that an order that cuts does not wait for it.
    await find()?.writeBack?.();
    await this.#inTurn(diskId, async () => {
      await find()?.release?.();
      accept();
      this.#rememberEnd(diskId, sessionNumber);
    });
    return (await find()?.sealMoves()) ?? [];
  }

  #rememberEnd(diskId: DiskId, sessionNumber: number): void {
    this.#ledger.remember(decideUnexport(this.#ledger.memory, diskId, sessionNumber, this.#maxEndedExports));
    if ((this.#beginning.get(diskId) ?? Number.POSITIVE_INFINITY) <= sessionNumber) this.#beginning.delete(diskId);
  }

  /**
   * Looks for failed I/O, and makes removed paths of exports again, because jobs find their disks by them. Does not leave
   * this to the next order for the disk, which may be far off.
   */
  async lookAtSockets(): Promise<void> {
    for (const [diskId, { served, revision }] of this.#running)
      try {
        await served.look?.();
        const isDue = revision === undefined && !this.#interrupted.has(diskId);
        if (isDue || !(await served.isReachable())) await this.#apply(diskId);
        this.#problems.noteReachable(diskId);
      } catch (error) {
        if (!(await served.isReachable().catch(() => true))) this.#problems.noteUnreachable(diskId, error);
        this.#log.error({ diskId, error: messageOf(error) }, "export check failed");
      }
  }

  /** Returns the disks that are served, or about to be served. */
  list(): { diskId: DiskId; sessionNumber: number; wentOn?: boolean }[] {
    const exports = new Map<DiskId, { readonly sessionNumber: number; readonly wentOn?: boolean }>();
    for (const [diskId, sessionNumber] of this.#beginning) exports.set(diskId, { sessionNumber });
    for (const [diskId, { sessionNumber, wentOn }] of this.#running)
      exports.set(diskId, { sessionNumber, ...(wentOn && { wentOn }) });
    return [...exports].map(([diskId, found]) => ({ diskId, ...found })).sort((a, b) => (a.diskId < b.diskId ? -1 : 1));
  }

  /**
   * Sets the rate of the mirror of a device, and returns how far it is. Its answer EQUAL binds. Throws OutdatedError
   * when the disk is not served in that session and revision or a later one, and NotFoundError when the device is not
   * mirrored.
   */
  askMirror(
    { diskId, sessionNumber, revision }: { diskId: DiskId; sessionNumber: number; revision: number },
    mirrored: Mirrored,
    bytesPerSecond: number,
  ): MirrorStatus {
    const running = this.#running.get(diskId);
    if (running?.sessionNumber !== sessionNumber || (running.revision ?? -1) < revision)
      throw new OutdatedError(`disk ${diskId} is not served in session ${sessionNumber} and revision ${revision}`, {
        about: { disk_id: diskId },
      });
    const status = running.served.askMirror(mirrored, bytesPerSecond);
    if (status !== undefined) return status;
    const { source, target } = mirrored;
    throw new NotFoundError(`disk ${diskId} does not mirror device ${source.deviceId} to device ${target.deviceId}`, {
      about: { disk_id: diskId },
    });
  }

  /** Returns the disks that this host is to serve and whose users cannot use them. */
  problems(): readonly DiskProblem[] {
    const { exports } = this.#ledger.memory;
    return this.#problems.list(exports, (diskId) => this.#running.get(diskId)?.served, this.#clock.monotonicMs());
  }

  /** Returns the served disks, the requests that are not answered, and what carries the bytes. */
  served(): (Served & { readonly diskId: DiskId })[] {
    const nowMs = this.#clock.monotonicMs();
    return [...this.#running].map(([diskId, { served, engine, engineReason }]) => {
      return { diskId, queue: served.queue(nowMs), engine, engineReason };
    });
  }

  /** Returns whether appended devices need another export of the disk. */
  hasFixedSize(diskId: DiskId): boolean {
    return this.#running.get(diskId)?.served.isFixedSize ?? false;
  }

  /** Returns the path of a disk that is served now. */
  find(diskId: DiskId): string | undefined {
    return this.#running.get(diskId)?.served.path;
  }

  /** Returns the path once pending changes of the disk have ended; between two sessions nothing is served. */
  async findSettled(diskId: DiskId): Promise<string | undefined> {
    await this.#turns.get(diskId)?.catch(() => undefined);
    return this.find(diskId);
  }

  /** Leaves the disks to what outlives the agent. The exports stay remembered, so the next start serves them again. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#running.keys()].map((diskId) => this.#apply(diskId)));
  }

  /** Starts or ends the serving of a disk, to match the memory. */
  #apply(diskId: DiskId): Promise<void> {
    return this.#inTurn(diskId, () => this.#applyNow(diskId));
  }

  #inTurn(diskId: DiskId, work: () => Promise<void>): Promise<void> {
    const before = this.#turns.get(diskId) ?? Promise.resolve();
    const turn = before
      .catch(() => undefined)
      .then(work)
      .finally(() => {
        if (this.#turns.get(diskId) === turn) this.#turns.delete(diskId);
      });
    this.#turns.set(diskId, turn);
    return turn;
  }

  async #applyNow(diskId: DiskId): Promise<void> {
    const running = this.#running.get(diskId);
    if (this.#closing.signal.aborted) {
      this.#running.delete(diskId);
      await running?.served.leave();
      return;
    }
    const spec = this.#ledger.memory.exports.get(diskId)?.spec;
    if (spec === undefined) this.#forms.delete(diskId);
    if (running && running.sessionNumber !== spec?.sessionNumber) {
      this.#running.delete(diskId);
      await running.served.end();
      this.#log.info({ diskId, sessionNumber: running.sessionNumber }, "export ended");
    } else if (running && (await running.served.restore())) this.#log.warn({ diskId }, "export socket recreated");
    if (spec && !this.#running.has(diskId)) await this.#begin(spec);
    else if (spec && running) await this.#change(running, spec);
  }

  async #change(running: Running, spec: ExportSpec): Promise<void> {
    const { diskId, sessionNumber, revision = 0 } = spec;
    if (running.revision === revision) return;
    this.#refuseInterrupted(spec);
    await running.served.change(spec);
    running.revision = revision;
    this.#log.info({ diskId, sessionNumber, revision }, "export changed");
  }

  async #begin(spec: ExportSpec): Promise<void> {
    const { diskId, sessionNumber } = spec;
    this.#refuseInterrupted(spec);
    const { engine, reason } = await engineFor(this.#engines, spec, this.#log);
    const { name, servesDevices = false } = engine;
    const form = this.#forms.get(diskId);
    const isKnown = form?.sessionNumber === sessionNumber;
    const isDevice = servesDevices || (isKnown ? form.isDevice : this.#blockDevices.isDevice(spec));
    let served = await engine.serve(this.#firstTries.of(spec));
    if (isDevice && !servesDevices) served = await this.#blockDevices.of(spec, served, () => this.#apply(diskId));
    const on = { engine: name, engineReason: reason, served, revision: spec.revision ?? 0, wentOn: false };
    this.#note(spec, on, { isDevice });
    this.#log.info({ diskId, sessionNumber, engine: name, isDevice }, "export started");
  }

  /**
   * Throws OutdatedError for a mirror that was interrupted: what one copy has acknowledged alone since, the other one
   * would lack after a swap that the registry may have decided before.
   */
  #refuseInterrupted(spec: ExportSpec): void {
    const { sessionNumber, revision } = this.#interrupted.get(spec.diskId) ?? {};
    if (sessionNumber === spec.sessionNumber && revision === spec.revision) throw interruptedMirror(spec);
    this.#interrupted.delete(spec.diskId);
  }

  async #adopt(spec: ExportSpec): Promise<void> {
    const { diskId, sessionNumber } = spec;
    try {
      for (const engine of this.#engines) {
        const served = await engine.adopt?.(spec);
        if (served === undefined) continue;
        // Only block devices outlive the agent.
        const on = { engine: engine.name, engineReason: "", served, revision: undefined, wentOn: true };
        this.#note(spec, on, { isDevice: true });
        this.#log.info({ diskId, sessionNumber, engine: engine.name }, "export adopted");
        return;
      }
    } catch (error) {
      this.#log.error({ diskId, error: messageOf(error) }, "export not adopted");
    }
  }

  #note(
    { diskId, sessionNumber }: ExportSpec,
    on: Omit<Running, "sessionNumber">,
    { isDevice }: { readonly isDevice: boolean },
  ): void {
    const running = { sessionNumber, ...on };
    this.#running.set(diskId, running);
    this.#forms.set(diskId, { sessionNumber, isDevice });
    this.#problems.noteServed(diskId);
    // A cleanup that failed is a loss, too: the next start of the export cleans up first.
    void on.served.lost?.catch(messageOf).then(async (reason) => {
      if (this.#running.get(diskId) !== running) return;
      this.#running.delete(diskId);
      const { spec } = this.#ledger.memory.exports.get(diskId) ?? {};
      if (spec !== undefined && isMoving(spec)) this.#interrupted.set(diskId, spec);
      this.#log.warn({ diskId, sessionNumber, engine: on.engine, reason }, "export lost");
      this.#problems.noteFault(diskId, reason);
      await this.#serveAgain(diskId);
    });
  }

  /** Tries to serve a disk until it is served, or no longer to be served. */
  async #serveAgain(diskId: DiskId): Promise<void> {
    const { signal } = this.#closing;
    const isDue = () =>
      !signal.aborted && this.#ledger.memory.exports.get(diskId)?.spec !== undefined && !this.#running.has(diskId);
    while (isDue())
      try {
        await this.#apply(diskId);
      } catch (error) {
        this.#log.debug({ diskId, error: messageOf(error) }, "export restart failed");
        this.#problems.noteFault(diskId, error);
        // A later session has the devices, so that this one is never served again.
        if (error instanceof OutdatedError) return;
        await this.#clock.sleep(SERVE_AGAIN_MS, signal).catch(() => undefined);
      }
  }
}
