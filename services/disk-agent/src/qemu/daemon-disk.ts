import { link, stat } from "node:fs/promises";
import { join } from "node:path";
import { type DiskId, type Logger, messageOf, sameIoLimits, UnavailableError } from "@diskmesh/domain";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { ServedDisk } from "../exports/engine.js";
import { socketPathIn } from "../exports/export-path.js";
import type { Mirrored, MirrorStatus } from "../exports/mirror.js";
import { DISK_NODE, LIMITS_OBJECT, throttleLimits } from "../model/daemon-arguments.js";
import type { FailedRequests } from "../model/daemon-log.js";
import { isMoving, withoutTargets } from "../model/exports.js";
import type { ExportExtent, ExportSpec } from "../model/memory.js";
import { NbdClient } from "../nbd/client.js";
import type { IoCounters } from "../nbd/io-counters.js";
import { removeFile } from "../remove-file.js";
import type { Daemon } from "./daemon.js";
import type { Detour } from "./detour.js";

/** A run of a device and the session in which a daemon has it. */
export interface SessionDevice {
  readonly device: Device;
  readonly sessionNumber: number;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Checks of a disk on another host. */
interface RemoteCheck {
  /** Maximum wait in ms of I/O while the other host cannot be reached. */
  readonly ioTimeoutMs: number;
  /**
   * Returns why the daemon can never reach the device again; undefined while it may. Asked when a read through the daemon
   * has failed or is not answered. Throws when the other host does not answer.
   */
  whyUnreachable(): Promise<string | undefined>;
}

/** Added to the timeout of I/O in ms, because QEMU rounds that to seconds and gives up a lost connection by itself. */
const ROUNDING_MS = 1_000;

interface DaemonDiskOptions {
  readonly diskId: DiskId;
  readonly daemon: Daemon;
  readonly folder: string;
  /** Disk that the daemon serves. */
  readonly spec: ExportSpec;
  /** Returns the devices of this host that are the disk's bytes. */
  readonly devicesOf: (spec: ExportSpec) => readonly SessionDevice[];
  /** Devices of this host that the daemon has. */
  readonly devices: readonly SessionDevice[];
  /**
   * True for a daemon of a former life that sends all bytes through the agent. Undefined for one that is too slow to say
   * so yet.
   */
  readonly isDetoured: boolean | undefined;
  readonly openDetour: (spec: ExportSpec) => Promise<Detour>;
  readonly table: Pick<DeviceTable, "changes" | "hardwareErrors" | "retired">;
  readonly io: Pick<IoCounters, "countErrors"> | undefined;
  readonly log: Logger;
  /** Absent for a disk of this host. */
  readonly remote?: RemoteCheck | undefined;
}

/** A disk that a storage daemon serves. Kills the daemon as soon as a device refuses its session. */
export class DaemonDisk implements ServedDisk {
  readonly path: string;
  /** An export of a daemon keeps its size. */
  readonly isFixedSize = true;
  /** A daemon does not count what its clients do. */
  readonly isCounted = false;
  readonly lost: Promise<string>;
  readonly #options: DaemonDiskOptions;
  /** Devices that are the disk's bytes. */
  #devices: readonly SessionDevice[];
  #spec: ExportSpec;
  /** True when the daemon sends all bytes through the agent, as it does since a part of the disk has moved. */
  #isDetoured: boolean | undefined;
  /** Way of the bytes through the agent; absent while it is not used, and until the registry's order after a restart. */
  #detour: Detour | undefined;
  readonly #left = new AbortController();
  #ending: Promise<void> | undefined;
  #learning: Promise<void> | undefined;
  #probing = false;
  /** Reason why the daemon can never reach its device again. */
  #failure: string | undefined;

  constructor(options: DaemonDiskOptions) {
    this.#options = options;
    this.#devices = options.devices;
    this.#spec = options.spec;
    const { daemon, table } = options;
    void daemon.gone.then(() => table.retired.delete(daemon.pid));
    this.#noteDetoured(options.isDetoured);
    this.path = socketPathIn(options.folder, options.diskId);
    this.lost = this.#whenLost();
  }

  async end(): Promise<void> {
    this.#left.abort();
    await this.#end();
  }

  async change(spec: ExportSpec): Promise<void> {
    const { diskId, extents, limits } = spec;
    const { daemon } = this.#options;
    await this.#learn();
    await daemon.execute("qom-set", { path: LIMITS_OBJECT, property: "limits", value: throttleLimits(limits) });
    if (bytesOf(extents) > bytesOf(this.#spec.extents))
      throw new UnavailableError(
        `disk ${diskId} has its new size once it is unpublished and published again: a running storage daemon cannot append devices`,
        { about: { disk_id: diskId } },
      );
    if (this.#isDetoured || isMoving(spec)) await this.#changeDetour(spec);
    // QEMU does not wake requests that wait for the former limits. A transaction without actions does, because it drains
    // all I/O first. It runs only for other limits, because it also waits for a client that has sent half a request, and
    // after the detour is open, for which I/O may wait.
    if (!sameIoLimits(this.#spec.limits, limits)) await daemon.execute("transaction", { actions: [] });
    this.#spec = spec;
  }

  /** Serves the disk to a daemon of a former life that waits for it. */
  async resume(spec: ExportSpec): Promise<void> {
    this.#detour = await this.#options.openDetour(spec);
  }

  /** Learns the state of a daemon of a former life that was too slow to say so at the agent's start. It serves meanwhile. */
  #learn(): Promise<void> {
    this.#learning ??= this.#learnNow().finally(() => {
      this.#learning = undefined;
    });
    return this.#learning;
  }

  async #learnNow(): Promise<void> {
    if (this.#isDetoured !== undefined) return;
    const { daemon, table } = this.#options;
    const sizeBytes = await daemon.sizeBytes(DISK_NODE);
    const isDetoured = await daemon.isDetoured();
    const extents = firstExtents(this.#spec.extents, sizeBytes);
    if (extents === undefined) {
      this.#failure = `the storage daemon has ${sizeBytes} bytes, which are not those of the disk`;
      table.changes.touch();
      return;
    }
    this.#spec = { ...this.#spec, extents };
    if (isDetoured && !isMoving(this.#spec)) await this.resume(this.#spec);
    this.#noteDetoured(isDetoured);
  }

  /** A detoured daemon does no more I/O on devices, although it keeps the descriptors and locks that it inherited. */
  #noteDetoured(isDetoured: boolean | undefined): void {
    const { daemon, table } = this.#options;
    this.#isDetoured = isDetoured;
    if (isDetoured !== true) return;
    table.retired.add(daemon.pid);
    for (const { device, ...run } of this.#devices) device.borrowers.leave(run.sessionNumber, run.offsetBytes);
  }

  askMirror(mirrored: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    return this.#detour?.askMirror(mirrored, bytesPerSecond);
  }

  async #changeDetour(spec: ExportSpec): Promise<void> {
    const { daemon, openDetour, devicesOf } = this.#options;
    // I/O that a daemon has in flight on the source must not pass a mirror by, so that none begins before the detour. A
    // daemon that waits for the detour of a former life has nothing in flight.
    this.#detour ??= await openDetour(this.#isDetoured ? spec : withoutTargets(this.#spec));
    await daemon.detour();
    this.#noteDetoured(true);
    this.#detour.change(spec);
    this.#devices = devicesOf(spec);
  }

  async leave(): Promise<void> {
    this.#left.abort();
    this.#options.daemon.leave();
    await this.#detour?.close();
  }

  async look(): Promise<void> {
    void this.#probe();
    void this.#learn().catch(() => undefined);
    this.#noteFailed(await this.#options.daemon.takeFailures());
  }

  isReachable(): Promise<boolean> {
    return isSameFile(this.path, this.#daemonSocket);
  }

  async restore(): Promise<boolean> {
    if (await this.isReachable()) return false;
    await removeFile(this.path);
    // A second name of the daemon's socket, because the daemon cannot listen twice.
    await link(this.#daemonSocket, this.path);
    return true;
  }

  /** Notes failed requests at the devices. A daemon does not tell on which one of several devices a request failed. */
  #noteFailed(failed: FailedRequests | undefined): void {
    const { diskId, table, io, log } = this.#options;
    const devices = this.#devices;
    if (failed !== undefined) io?.countErrors(diskId, failed.counts);
    const names = devices.map(({ device }) => device.id).join(", ");
    const where = devices.length > 1 ? `one of the devices ${names}` : `device ${names}`;
    const message = failed && `I/O of disk ${diskId} on ${where} failed: ${failed.message}`;
    if (failed !== undefined) log.error({ diskId, devices: names, error: failed.message }, "disk I/O failed");
    for (const { device, sessionNumber, offsetBytes } of devices) {
      device.borrowers.noteProblem(sessionNumber, offsetBytes, failed?.isHardware ? undefined : message);
      if (failed?.isHardware && message !== undefined) table.hardwareErrors.note(device.id, message);
    }
  }

  /**
   * Reads through the daemon of a remote device, and ends it when it can never reach the device again. Ends it also while
   * the device's host is silent, because QEMU waits for an answer until the connection breaks.
   */
  async #probe(): Promise<void> {
    const { remote, table } = this.#options;
    // The agent's own connections to devices of other hosts know what to do.
    if (remote === undefined || this.#probing || this.#isDetoured) return;
    this.#probing = true;
    try {
      const read = await readOnce(this.#daemonSocket, remote.ioTimeoutMs + ROUNDING_MS);
      if (read === "answered") return;
      this.#failure ??= await remote.whyUnreachable().catch((error: unknown) => {
        // The next probe asks again.
        if (read === "failed") return undefined;
        return `the device's host did not answer for ${remote.ioTimeoutMs} ms: ${messageOf(error)}`;
      });
      table.changes.touch();
    } finally {
      this.#probing = false;
    }
  }

  get #daemonSocket(): string {
    return join(this.#options.folder, this.#options.daemon.files.nbdSocket);
  }

  #end(): Promise<void> {
    this.#ending ??= this.#endNow();
    return this.#ending;
  }

  async #endNow(): Promise<void> {
    const { daemon } = this.#options;
    for (const { device, ...run } of this.#devices) device.borrowers.noteKill(run.sessionNumber, run.offsetBytes);
    this.#noteFailed(await daemon.kill());
    await this.#detour?.close();
    for (const { device, ...run } of this.#devices) device.borrowers.leave(run.sessionNumber, run.offsetBytes);
    await removeFile(this.path);
  }

  /** Resolves once the daemon is gone because it ended by itself, or because a device refused its session. */
  async #whenLost(): Promise<string> {
    const { daemon, table } = this.#options;
    using watch = table.changes.watch(undefined);
    let reason: string | undefined;
    void daemon.gone.then(() => {
      reason ??= "the storage daemon has ended";
      watch.touch();
    });
    while (!this.#left.signal.aborted) {
      reason ??= refusalOf(this.#devices) ?? this.#failure;
      if (reason !== undefined) {
        await this.#end();
        if (!this.#left.signal.aborted) return reason;
      }
      await watch.changed(this.#left.signal).catch(() => undefined);
    }
    // A caller that has left the disk does not wait for its loss.
    return new Promise(() => {});
  }
}

const bytesOf = (extents: readonly ExportExtent[]) => extents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

/**
 * Returns the extents that a daemon of this size has, which may lack what a later revision has appended, also to the last
 * extent of then.
 */
export function firstExtents(
  extents: readonly ExportExtent[],
  sizeBytes: number | undefined,
): readonly ExportExtent[] | undefined {
  let endBytes = 0;
  for (const [index, extent] of extents.entries()) {
    const startBytes = endBytes;
    endBytes += extent.sizeBytes;
    if (sizeBytes !== undefined && startBytes < sizeBytes && sizeBytes <= endBytes)
      return [...extents.slice(0, index), { ...extent, sizeBytes: sizeBytes - startBytes }];
  }
  return undefined;
}

/** Returns why a process must no longer have one of the devices in its session; undefined when it may have all. */
export function refusalOf(devices: readonly SessionDevice[]): string | undefined {
  for (const { device, sessionNumber, offsetBytes } of devices) {
    const refusal = device.refusalOf(sessionNumber, offsetBytes);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

async function readOnce(socketPath: string, timeoutMs: number): Promise<"answered" | "failed" | "silent"> {
  let isSilent = false;
  try {
    const client = await NbdClient.connect({ socketPath });
    const timer = setTimeout(() => {
      isSilent = true;
      client.destroy();
    }, timeoutMs);
    try {
      await client.read(0, 512);
      return "answered";
    } finally {
      clearTimeout(timer);
      client.destroy();
    }
  } catch {
    return isSilent ? "silent" : "failed";
  }
}

async function isSameFile(path: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([path, other].map((each) => stat(each).catch(() => undefined)));
  return a !== undefined && a.ino === b?.ino && a.dev === b.dev;
}
