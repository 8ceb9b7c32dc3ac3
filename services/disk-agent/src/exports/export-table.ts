import { type DiskId, InvalidArgumentError, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import type { DeviceTable } from "../devices/device-table.js";
import { decideExport, decideUnexport } from "../model/exports.js";
import type { ExportExtent, ExportSpec } from "../model/memory.js";
import { type ListenNbd, NbdServer, type NbdServerLimits, type ServedNbd } from "../nbd/server.js";
import { socketPathIn } from "../nbd/socket-path.js";
import type { DiskPart } from "./disk-part.js";
import { LinearDisk } from "./linear-disk.js";
import { LocalPart, type LocalWaiting } from "./local-part.js";

/** Connects to a device of another host for an export. */
export type OpenRemotePart = (extent: ExportExtent, spec: ExportSpec) => DiskPart;

interface Running {
  readonly sessionNumber: number;
  readonly disk: LinearDisk;
  readonly server: ServedNbd;
}

/** Manages the disks served on this host. */
export class ExportTable {
  readonly #folder: string;
  readonly #ledger: Ledger;
  readonly #devices: DeviceTable;
  readonly #openRemotePart: OpenRemotePart;
  readonly #waiting: LocalWaiting;
  readonly #limits: NbdServerLimits & { readonly drainTimeoutMs: number; readonly maxEndedExports: number };
  readonly #log: Logger;
  readonly #listenNbd: ListenNbd;
  readonly #running = new Map<DiskId, Running>();
  /** Session numbers of exports that are remembered but not served yet. */
  readonly #beginning = new Map<DiskId, number>();
  readonly #turns = new Map<DiskId, Promise<void>>();
  #closed = false;

  constructor(options: {
    /** Existing folder for the sockets, accessible to the agent only. */
    folder: string;
    ledger: Ledger;
    devices: DeviceTable;
    openRemotePart: OpenRemotePart;
    clock: Clock;
    limits: NbdServerLimits & {
      readonly drainTimeoutMs: number;
      readonly maxEndedExports: number;
      /** Maximum wait in ms of I/O while a device is unusable. */
      readonly ioTimeoutMs: number;
    };
    log: Logger;
    listenNbd?: ListenNbd;
  }) {
    this.#folder = options.folder;
    this.#ledger = options.ledger;
    this.#devices = options.devices;
    this.#openRemotePart = options.openRemotePart;
    const { devices, clock } = options;
    this.#waiting = { devices, clock, timeoutMs: options.limits.ioTimeoutMs };
    this.#limits = options.limits;
    this.#log = options.log;
    this.#listenNbd = options.listenNbd ?? NbdServer.listen;
  }

  /** Serves the remembered exports again. The devices refuse I/O of sessions that were superseded meanwhile. */
  async start(): Promise<void> {
    for (const diskId of this.#ledger.memory.exports.keys())
      try {
        await this.#apply(diskId);
      } catch (error) {
        this.#log.error({ diskId, error: messageOf(error) }, "export restart failed");
      }
  }

  /**
   * Decides to serve a disk, and puts that into the memory, not yet durably. Throws OutdatedError when the decision is
   * no. The disk is listed at once, so that a registry that no longer wants it can end it.
   */
  intend(spec: ExportSpec): void {
    this.#ledger.remember(decideExport(this.#ledger.memory, spec).memory);
    this.#beginning.set(spec.diskId, spec.sessionNumber);
  }

  /** Serves a disk, and returns the path of its socket. Idempotent. */
  async serve(spec: ExportSpec): Promise<string> {
    this.#check(spec);
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
    return this.#socketPath(spec.diskId);
  }

  /**
   * Ends all exports of the disk up to this session, and refuses them from now on. The caller reports the end only once
   * the ledger is durable: an agent that dies earlier may serve the disk again.
   */
  async end(diskId: DiskId, sessionNumber: number): Promise<void> {
    const { maxEndedExports } = this.#limits;
    this.#ledger.remember(decideUnexport(this.#ledger.memory, diskId, sessionNumber, maxEndedExports));
    if ((this.#beginning.get(diskId) ?? Number.POSITIVE_INFINITY) <= sessionNumber) this.#beginning.delete(diskId);
    await this.#apply(diskId);
  }

  /**
   * Creates removed sockets again, because jobs find their disks by the sockets. Does not leave this to the next order
   * for the disk, which may be far off.
   */
  async lookAtSockets(): Promise<void> {
    for (const [diskId, { server }] of this.#running)
      try {
        if (!(await server.hasSocket())) await this.#apply(diskId);
      } catch (error) {
        // Does not throw, so that the other sockets are still checked.
        this.#log.error({ diskId, error: messageOf(error) }, "export socket recreation failed");
      }
  }

  /** Returns the disks that are served, or about to be served. */
  list(): { diskId: DiskId; sessionNumber: number }[] {
    const sessions = new Map(this.#beginning);
    for (const [diskId, { sessionNumber }] of this.#running) sessions.set(diskId, sessionNumber);
    return [...sessions]
      .map(([diskId, sessionNumber]) => ({ diskId, sessionNumber }))
      .sort((a, b) => (a.diskId < b.diskId ? -1 : 1));
  }

  /** Returns the socket of a disk that is served now. */
  find(diskId: DiskId): string | undefined {
    return this.#running.has(diskId) ? this.#socketPath(diskId) : undefined;
  }

  /** Returns the socket once pending changes of the disk have ended; between two sessions no server runs. */
  async findSettled(diskId: DiskId): Promise<string | undefined> {
    await this.#turns.get(diskId)?.catch(() => undefined);
    return this.find(diskId);
  }

  /** Stops the servers. The exports stay remembered, so the next start serves them again. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#running.keys()].map((diskId) => this.#apply(diskId)));
  }

  #socketPath(diskId: DiskId): string {
    return socketPathIn(this.#folder, diskId);
  }

  #check(spec: ExportSpec): void {
    for (const extent of spec.extents) {
      if (extent.hostId !== this.#ledger.memory.hostId) continue;
      const device = this.#devices.get(extent.deviceId);
      device.checkAccess(spec.sessionNumber);
      if (extent.sizeBytes > device.sizeBytes)
        throw new InvalidArgumentError(
          `device ${device.id} holds ${device.sizeBytes} bytes, but its extent in disk ${spec.diskId} has ${extent.sizeBytes}`,
        );
    }
  }

  /** Starts or stops the server of a disk, to match the memory. Runs one at a time for each disk. */
  #apply(diskId: DiskId): Promise<void> {
    const before = this.#turns.get(diskId) ?? Promise.resolve();
    const turn = before
      .catch(() => undefined)
      .then(() => this.#applyNow(diskId))
      .finally(() => {
        if (this.#turns.get(diskId) === turn) this.#turns.delete(diskId);
      });
    this.#turns.set(diskId, turn);
    return turn;
  }

  async #applyNow(diskId: DiskId): Promise<void> {
    const spec = this.#closed ? undefined : this.#ledger.memory.exports.get(diskId)?.spec;
    const running = this.#running.get(diskId);
    if (running && running.sessionNumber !== spec?.sessionNumber) {
      this.#running.delete(diskId);
      await running.server.close(this.#limits.drainTimeoutMs);
      running.disk.close();
      this.#log.info({ diskId, sessionNumber: running.sessionNumber }, "export ended");
    } else if (running && (await running.server.restore())) this.#log.warn({ diskId }, "export socket recreated");
    if (spec && !this.#running.has(diskId)) this.#running.set(diskId, await this.#listen(spec));
  }

  async #listen(spec: ExportSpec): Promise<Running> {
    const disk = new LinearDisk(
      spec.extents.map((extent) => ({ part: this.#openPart(extent, spec), sizeBytes: extent.sizeBytes })),
    );
    const served = { name: spec.diskId, sizeBytes: disk.sizeBytes, blockSizeBytes: spec.blockSizeBytes };
    const socketPath = this.#socketPath(spec.diskId);
    try {
      const server = await this.#listenNbd({ socketPath, served, disk, limits: this.#limits, log: this.#log });
      this.#log.info({ diskId: spec.diskId, sessionNumber: spec.sessionNumber }, "export started");
      return { sessionNumber: spec.sessionNumber, disk, server };
    } catch (error) {
      disk.close();
      throw error;
    }
  }

  #openPart(extent: ExportExtent, spec: ExportSpec): DiskPart {
    return extent.hostId === this.#ledger.memory.hostId
      ? new LocalPart(this.#devices.get(extent.deviceId), spec.sessionNumber, this.#waiting)
      : this.#openRemotePart(extent, spec);
  }
}
