import { type HostId, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { LentFile } from "../devices/file-lending.js";
import type { Engine, ServedDisk } from "../exports/engine.js";
import {
  daemonArguments,
  daemonFiles,
  type LocalFilePart,
  vmdkDescriptor,
  whyNotConcatenated,
} from "../model/daemon-arguments.js";
import type { ExportSpec } from "../model/memory.js";
import { Daemon, killDaemons } from "./daemon.js";
import { DaemonDisk } from "./daemon-disk.js";

interface QemuEngineOptions {
  readonly hostId: HostId;
  /** Folder of the daemons' files and of the sockets. */
  readonly folder: string;
  readonly devices: DeviceTable;
  readonly log: Logger;
}

/** First descriptor of a daemon after its standard ones. */
const FIRST_FD = 3;

/**
 * Carries the bytes of each disk in a qemu-storage-daemon of its session, which outlives the agent. The agent carries
 * the fence: it kills the daemon when a device refuses the session, and grants a later one once nothing of it is left.
 */
export class QemuEngine implements Engine {
  readonly name = "qemu";
  readonly #options: QemuEngineOptions;

  constructor(options: QemuEngineOptions) {
    this.#options = options;
  }

  whyNot(spec: ExportSpec): string | undefined {
    const { hostId, devices } = this.#options;
    if (spec.extents.some((extent) => extent.hostId !== hostId)) return "one of its devices is on another host";
    if (spec.readOnly) return "the disk is read-only";
    if (spec.limits) return "the disk has limits";
    const parts = spec.extents.map(({ deviceId, sizeBytes }) => {
      const { file, config } = devices.get(deviceId);
      return { fileName: file.seen?.identity ?? file.path, offsetBytes: config.offsetBytes, sizeBytes };
    });
    return whyNotConcatenated(parts);
  }

  async serve(spec: ExportSpec): Promise<ServedDisk> {
    const { folder } = this.#options;
    const { diskId, sessionNumber } = spec;
    const lent: { readonly device: Device; readonly file: LentFile }[] = [];
    try {
      for (const device of this.#devicesOf(spec)) lent.push({ device, file: device.lend(sessionNumber) });
      const parts = spec.extents.map(
        ({ sizeBytes }, index): LocalFilePart => ({
          fd: FIRST_FD + index,
          isBlockDevice: lent[index]?.file.isBlockDevice ?? false,
          offsetBytes: lent[index]?.device.config.offsetBytes ?? 0,
          sizeBytes,
        }),
      );
      const files = daemonFiles(sessionNumber);
      const args = daemonArguments({ diskId, parts }, files);
      const fds = lent.map(({ file }) => file.fd);
      const descriptor = parts.length > 1 ? vmdkDescriptor(parts) : undefined;
      return await this.#served(spec, await Daemon.start({ folder, sessionNumber, args, fds, descriptor }));
    } catch (error) {
      for (const { device } of lent) device.borrower.leave(sessionNumber);
      throw error;
    } finally {
      for (const { file } of lent) file.close();
    }
  }

  async adopt(spec: ExportSpec): Promise<ServedDisk | undefined> {
    const { folder, devices } = this.#options;
    const { diskId, sessionNumber } = spec;
    // The daemon does not have what a later revision changed.
    if (spec.readOnly || spec.limits || spec.revision) return undefined;
    if (spec.extents.some(({ deviceId }) => !devices.has(deviceId))) return undefined;
    const own = this.#devicesOf(spec);
    if (own.some((device) => device.refusalOf(sessionNumber) !== undefined)) return undefined;
    const daemon = await Daemon.find(folder, sessionNumber, diskId);
    if (daemon === undefined) return undefined;
    for (const device of own) device.borrower.enter(sessionNumber);
    return this.#served(spec, daemon);
  }

  async endLeftovers(): Promise<void> {
    const { folder, devices, log } = this.#options;
    const current = new Set(devices.all().map((device) => device.borrower.sessionNumber));
    const sessions = await killDaemons(folder, (sessionNumber) => !current.has(sessionNumber));
    if (sessions.length > 0) log.info({ sessions }, "storage daemons of ended sessions killed");
  }

  #devicesOf(spec: ExportSpec): Device[] {
    return spec.extents.map(({ deviceId }) => this.#options.devices.get(deviceId));
  }

  async #served(spec: ExportSpec, daemon: Daemon): Promise<ServedDisk> {
    const { folder, devices } = this.#options;
    const disk = new DaemonDisk({ spec, daemon, folder, changes: devices.changes, devices: this.#devicesOf(spec) });
    try {
      await disk.restore();
      return disk;
    } catch (error) {
      await disk.end();
      throw new UnavailableError(`cannot serve disk ${spec.diskId} at ${disk.path}: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }
}
