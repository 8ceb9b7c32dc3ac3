import { type HostId, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
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
import { DaemonDisk, type SessionDevice } from "./daemon-disk.js";

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
  readonly outlivesAgent = true;
  readonly #options: QemuEngineOptions;

  constructor(options: QemuEngineOptions) {
    this.#options = options;
  }

  whyNot(spec: ExportSpec): string | undefined {
    const { hostId, devices } = this.#options;
    if (spec.extents.some((extent) => extent.hostId !== hostId)) return "one of its devices is on another host";
    const parts = spec.extents.map(({ deviceId, sizeBytes }) => {
      const { file, config } = devices.get(deviceId);
      return { fileName: file.seen?.identity ?? file.path, offsetBytes: config.offsetBytes, sizeBytes };
    });
    return whyNotConcatenated(parts);
  }

  async serve(spec: ExportSpec): Promise<ServedDisk> {
    const { folder } = this.#options;
    const { diskId, sessionNumber } = spec;
    const lent: (SessionDevice & { readonly file: LentFile })[] = [];
    try {
      for (const each of this.#devicesOf(spec)) lent.push({ ...each, file: each.device.lend(each.sessionNumber) });
      const parts = lent.map(
        ({ device, sizeBytes, file: { isBlockDevice } }, index): LocalFilePart => ({
          fd: FIRST_FD + index,
          isBlockDevice,
          offsetBytes: device.config.offsetBytes,
          sizeBytes,
        }),
      );
      const files = daemonFiles(sessionNumber);
      const { readOnly = false, limits } = spec;
      const args = daemonArguments({ diskId, parts, readOnly, limits }, files);
      const fds = lent.map(({ file }) => file.fd);
      const descriptor = parts.length > 1 ? vmdkDescriptor(parts) : undefined;
      return await this.#served(spec, await Daemon.start({ folder, sessionNumber, args, fds, descriptor }));
    } catch (error) {
      for (const each of lent) each.device.borrower.leave(each.sessionNumber);
      throw error;
    } finally {
      for (const { file } of lent) file.close();
    }
  }

  async adopt(spec: ExportSpec): Promise<ServedDisk | undefined> {
    const { folder, devices } = this.#options;
    const { diskId, sessionNumber } = spec;
    // The daemon does not have what a later revision changed.
    if (spec.extents.some(({ deviceId }) => !devices.has(deviceId))) return undefined;
    const own = this.#devicesOf(spec);
    if (own.some((each) => each.device.refusalOf(each.sessionNumber) !== undefined)) return undefined;
    const daemon = await Daemon.find(folder, sessionNumber, diskId);
    if (daemon === undefined) return undefined;
    for (const each of own) each.device.borrower.enter(each.sessionNumber);
    const served = await this.#served(spec, daemon);
    // The agent may have ended between the order and the change.
    await served.change(spec);
    return served;
  }

  async endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    const { folder, log } = this.#options;
    const sessions = await killDaemons(folder, (sessionNumber) => !isServed(sessionNumber));
    if (sessions.length > 0) log.info({ sessions }, "storage daemons of ended sessions killed");
  }

  #devicesOf(spec: ExportSpec): SessionDevice[] {
    return spec.extents.map(({ deviceId, sizeBytes, sessionNumber = spec.sessionNumber }) => ({
      device: this.#options.devices.get(deviceId),
      sessionNumber,
      sizeBytes,
    }));
  }

  async #served(spec: ExportSpec, daemon: Daemon): Promise<DaemonDisk> {
    const { folder, devices } = this.#options;
    const disk = new DaemonDisk({
      diskId: spec.diskId,
      daemon,
      folder,
      changes: devices.changes,
      devices: this.#devicesOf(spec),
    });
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
