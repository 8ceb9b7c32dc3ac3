import { link, stat } from "node:fs/promises";
import { join } from "node:path";
import { type DiskId, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Changes } from "@diskmesh/service";
import type { Device } from "../devices/device.js";
import type { HardwareErrors } from "../devices/hardware-errors.js";
import type { ServedDisk } from "../exports/engine.js";
import { socketPathIn } from "../exports/export-path.js";
import { LIMITS_OBJECT, throttleLimits } from "../model/daemon-arguments.js";
import type { FailedRequests } from "../model/daemon-log.js";
import type { ExportSpec } from "../model/memory.js";
import { NbdClient } from "../nbd/client.js";
import type { IoCounters } from "../nbd/io-counters.js";
import { removeFile } from "../remove-file.js";
import type { Daemon } from "./daemon.js";

/** A device and the session in which a daemon has it. */
export interface SessionDevice {
  readonly device: Device;
  readonly sessionNumber: number;
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
  /** Devices of this host that the daemon has. */
  readonly devices: readonly SessionDevice[];
  /** Number of devices of which the daemon's disk consists, on all hosts. */
  readonly partCount: number;
  readonly changes: Changes<void>;
  readonly hardwareErrors: HardwareErrors;
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
  readonly #left = new AbortController();
  #ending: Promise<void> | undefined;
  #probing = false;
  /** Reason why the daemon can never reach its device again. */
  #failure: string | undefined;

  constructor(options: DaemonDiskOptions) {
    this.#options = options;
    this.path = socketPathIn(options.folder, options.diskId);
    this.lost = this.#whenLost();
  }

  async end(): Promise<void> {
    this.#left.abort();
    await this.#end();
  }

  async change({ diskId, extents, limits }: ExportSpec): Promise<void> {
    const { daemon, partCount } = this.#options;
    await daemon.qmp.execute("qom-set", { path: LIMITS_OBJECT, property: "limits", value: throttleLimits(limits) });
    if (extents.length > partCount)
      throw new UnavailableError(
        `disk ${diskId} has its new size once it is unpublished and published again: a running storage daemon cannot append devices`,
        { about: { disk_id: diskId } },
      );
  }

  async leave(): Promise<void> {
    this.#left.abort();
    this.#options.daemon.qmp.close();
  }

  async look(): Promise<void> {
    void this.#probe();
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
    const { diskId, devices, hardwareErrors, io, log } = this.#options;
    if (failed !== undefined) io?.countErrors(diskId, failed.counts);
    const names = devices.map(({ device }) => device.id).join(", ");
    const where = devices.length > 1 ? `one of the devices ${names}` : `device ${names}`;
    const message = failed && `I/O of disk ${diskId} on ${where} failed: ${failed.message}`;
    if (failed !== undefined) log.error({ diskId, devices: names, error: failed.message }, "disk I/O failed");
    for (const { device } of devices) {
      device.borrower.noteProblem(failed?.isHardware ? undefined : message);
      if (failed?.isHardware && message !== undefined) hardwareErrors.note(device.id, message);
    }
  }

  /**
   * Reads through the daemon of a remote device, and ends it when it can never reach the device again. Ends it also while
   * the device's host is silent, because QEMU waits for an answer until the connection breaks.
   */
  async #probe(): Promise<void> {
    const { remote, changes } = this.#options;
    if (remote === undefined || this.#probing) return;
    this.#probing = true;
    try {
      const read = await readOnce(this.#daemonSocket, remote.ioTimeoutMs + ROUNDING_MS);
      if (read === "answered") return;
      this.#failure ??= await remote.whyUnreachable().catch((error: unknown) => {
        // The next probe asks again.
        if (read === "failed") return undefined;
        return `the device's host did not answer for ${remote.ioTimeoutMs} ms: ${messageOf(error)}`;
      });
      changes.touch();
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
    const { daemon, devices } = this.#options;
    for (const { device } of devices) device.borrower.noteKill();
    this.#noteFailed(await daemon.kill());
    for (const { device, sessionNumber } of devices) device.borrower.leave(sessionNumber);
    await removeFile(this.path);
  }

  /** Resolves once the daemon is gone because it ended by itself, or because a device refused its session. */
  async #whenLost(): Promise<string> {
    const { daemon, changes } = this.#options;
    using watch = changes.watch(undefined);
    let reason: string | undefined;
    void daemon.gone.then(() => {
      reason ??= "the storage daemon has ended";
      watch.touch();
    });
    while (!this.#left.signal.aborted) {
      reason ??= refusalOf(this.#options.devices) ?? this.#failure;
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

/** Returns why a process must no longer have one of the devices in its session; undefined when it may have all. */
export function refusalOf(devices: readonly SessionDevice[]): string | undefined {
  for (const { device, sessionNumber } of devices) {
    const refusal = device.refusalOf(sessionNumber);
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
