import { type HostId, type Logger, messageOf, parseHostPort, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { DeviceTable } from "../devices/device-table.js";
import type { LentFile } from "../devices/file-lending.js";
import type { Engine, ServedDisk } from "../exports/engine.js";
import { type OpenPart, openPart } from "../exports/open-part.js";
import {
  DISK_NODE,
  daemonArguments,
  daemonFiles,
  type LocalFilePart,
  vmdkDescriptor,
  whyNotConcatenated,
} from "../model/daemon-arguments.js";
import { isMoving } from "../model/exports.js";
import type { ExportExtent, ExportSpec } from "../model/memory.js";
import { ConnectionEndedError } from "../nbd/byte-reader.js";
import type { IoCounters } from "../nbd/io-counters.js";
import type { LinkDevice } from "../remote/device-link.js";
import { exportNameOf, formatSessionIdentity } from "../remote/session-identity.js";
import { Daemon, killDaemons } from "./daemon.js";
import { DaemonDisk, firstExtents, refusalOf, type SessionDevice } from "./daemon-disk.js";
import { Detour, type DetourOptions } from "./detour.js";

interface QemuEngineOptions {
  readonly hostId: HostId;
  /** Folder of the daemons' files and of the sockets. */
  readonly folder: string;
  readonly devices: DeviceTable;
  readonly linkDevice: LinkDevice;
  /** Maximum wait in ms of I/O while a device of another host cannot be reached. */
  readonly remoteIoTimeoutMs: number;
  readonly openRemotePart: OpenPart;
  /** Limits of the way through the agent, while and after a part moves. */
  readonly limits: DetourOptions["limits"];
  readonly clock: Clock;
  /** Counters of the disks' failed requests. */
  readonly io?: Pick<IoCounters, "countErrors"> | undefined;
  readonly log: Logger;
}

interface LentDevice extends SessionDevice {
  readonly file: LentFile;
}

/** Maximum time in ms to ask another host for its boot id. */
const LINK_TIMEOUT_MS = 5_000;

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
    if (isMoving(spec)) return "a part of it moves";
    if (this.#remoteOf(spec) !== undefined) return undefined;
    if (spec.extents.some((extent) => extent.hostId !== hostId))
      return "it has several devices, and one of them is on another host";
    const parts = spec.extents.map(({ deviceId, offsetBytes = 0, sizeBytes }) => {
      const { file, config } = devices.get(deviceId);
      return { fileName: file.seen?.identity ?? file.path, offsetBytes: config.offsetBytes + offsetBytes, sizeBytes };
    });
    return whyNotConcatenated(parts);
  }

  async serve(spec: ExportSpec): Promise<ServedDisk> {
    const remote = this.#remoteOf(spec);
    if (remote !== undefined) return this.#serveRemote(spec, remote);
    const lent: LentDevice[] = [];
    try {
      const daemon = await this.#startOn(spec, lent).finally(() => {
        for (const { file } of lent) file.close();
      });
      return await this.#served(spec, daemon, false);
    } catch (error) {
      for (const { device, ...run } of lent) device.borrowers.leave(run.sessionNumber, run.offsetBytes);
      throw error;
    }
  }

  /** Starts the daemon of a disk of this host. Adds each device that was lent to `lent`, also before it throws. */
  async #startOn(spec: ExportSpec, lent: LentDevice[]): Promise<Daemon> {
    const { folder } = this.#options;
    const { diskId, sessionNumber, readOnly = false, limits } = spec;
    for (const each of this.#devicesOf(spec))
      lent.push({ ...each, file: each.device.lend(each.sessionNumber, each.offsetBytes) });
    const parts = lent.map(
      ({ device, offsetBytes, sizeBytes, file: { isBlockDevice } }, index): LocalFilePart => ({
        fd: FIRST_FD + index,
        isBlockDevice,
        offsetBytes: device.config.offsetBytes + offsetBytes,
        sizeBytes,
      }),
    );
    return Daemon.start({
      folder,
      sessionNumber,
      args: daemonArguments({ diskId, parts, readOnly, limits }, daemonFiles(sessionNumber)),
      fds: lent.map(({ file }) => file.fd),
      descriptor: parts.length > 1 ? vmdkDescriptor(parts) : undefined,
      // A later session does not wait for a daemon that starts slowly.
      whyUnwanted: () => refusalOf(lent),
    });
  }

  async #serveRemote(spec: ExportSpec, extent: ExportExtent): Promise<ServedDisk> {
    const { folder, remoteIoTimeoutMs: ioTimeoutMs } = this.#options;
    const { diskId, sessionNumber, readOnly = false, limits } = spec;
    const { host, port } = parseHostPort("block_address", extent.blockAddress);
    const identity = formatSessionIdentity({ sessionNumber, ...extent });
    const exportName = exportNameOf(
      identity,
      await this.#machineOf(spec, extent, AbortSignal.timeout(LINK_TIMEOUT_MS)),
    );
    const device = { host, port, identity, exportName, sizeBytes: extent.sizeBytes, ioTimeoutMs };
    const args = daemonArguments({ diskId, parts: device, readOnly, limits }, daemonFiles(sessionNumber));
    const key = { identity, key: extent.sessionKey };
    return this.#served(spec, await Daemon.start({ folder, sessionNumber, args, fds: [], key }), false);
  }

  /** Asks for the boot id of the device's machine, on a connection that ends again. */
  async #machineOf({ sessionNumber }: ExportSpec, extent: ExportExtent, signal: AbortSignal): Promise<string> {
    const target = { sessionNumber, ...extent, address: extent.blockAddress };
    const link = await this.#options.linkDevice(target, signal);
    link.close();
    await link.ended;
    return link.machineBootId;
  }

  /** A daemon knows its device by the start of the device's machine. */
  async #whyUnreachable(spec: ExportSpec, daemon: Daemon): Promise<string | undefined> {
    const extent = this.#remoteOf(spec);
    if (extent === undefined) return undefined;
    const identity = formatSessionIdentity({ sessionNumber: spec.sessionNumber, ...extent });
    const signal = AbortSignal.timeout(LINK_TIMEOUT_MS);
    try {
      const exportName = exportNameOf(identity, await this.#machineOf(spec, extent, signal));
      return daemon.wasStartedWith(exportName) ? undefined : `the machine of device ${extent.deviceId} has restarted`;
    } catch (error) {
      // The host answers: the daemon's next connection ended this one.
      if (error instanceof ConnectionEndedError && !signal.aborted) return undefined;
      throw error;
    }
  }

  /** Returns the device of another host that is the whole disk; undefined for other disks. */
  #remoteOf({ extents }: ExportSpec): ExportExtent | undefined {
    const [only] = extents;
    return extents.length === 1 && only?.hostId !== this.#options.hostId ? only : undefined;
  }

  async adopt(spec: ExportSpec): Promise<ServedDisk | undefined> {
    const { folder, devices, hostId } = this.#options;
    const daemon = await Daemon.find(folder, spec.sessionNumber, spec.diskId);
    if (daemon === undefined) return undefined;
    const state = await stateOf(daemon);
    // A slow daemon is not a dead one: it serves on, and its state is asked for later.
    const extents = state === undefined ? spec.extents : firstExtents(spec.extents, state.sizeBytes);
    if (extents === undefined) return undefined;
    const had = { ...spec, extents };
    const isOwn = ({ deviceId, hostId: on }: ExportExtent) => on !== hostId || devices.has(deviceId);
    if (!extents.every(isOwn)) return undefined;
    const own = this.#devicesOf(had);
    if (refusalOf(own) !== undefined) return undefined;
    const isDetoured = state?.isDetoured;
    // The daemon may have any of the devices, which its lock does not tell.
    for (const { device, sessionNumber, ...bytes } of own) device.noteLent(sessionNumber, bytes);
    const disk = await this.#served(had, daemon, isDetoured);
    // The registry says first which device of a part that moves has every acknowledged write.
    if (isDetoured === true && !isMoving(spec)) await disk.resume(had);
    return disk;
  }

  async endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    const { folder, log } = this.#options;
    const sessions = await killDaemons(folder, (sessionNumber) => !isServed(sessionNumber));
    if (sessions.length > 0) log.info({ sessions }, "storage daemons of ended sessions killed");
  }

  #devicesOf(spec: ExportSpec): SessionDevice[] {
    const own = spec.extents.filter(({ hostId }) => hostId === this.#options.hostId);
    return own.map(({ deviceId, offsetBytes = 0, sizeBytes, sessionNumber = spec.sessionNumber }) => ({
      device: this.#options.devices.get(deviceId),
      sessionNumber,
      offsetBytes,
      sizeBytes,
    }));
  }

  async #served(spec: ExportSpec, daemon: Daemon, isDetoured: boolean | undefined): Promise<DaemonDisk> {
    const { folder, devices, io, remoteIoTimeoutMs: ioTimeoutMs, log, limits } = this.#options;
    const openPartOf = openPart({ ...this.#options, ioTimeoutMs });
    const disk = new DaemonDisk({
      diskId: spec.diskId,
      daemon,
      folder,
      table: devices,
      io,
      log,
      spec,
      devices: this.#devicesOf(spec),
      isDetoured,
      devicesOf: (later) => this.#devicesOf(later),
      openDetour: (now) => Detour.open(now, { ...this.#options, openPart: openPartOf, limits }),
      remote: this.#remoteOf(spec) && { ioTimeoutMs, whyUnreachable: () => this.#whyUnreachable(spec, daemon) },
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

async function stateOf(daemon: Daemon) {
  try {
    return { sizeBytes: await daemon.sizeBytes(DISK_NODE), isDetoured: await daemon.isDetoured() };
  } catch (error) {
    if (error instanceof UnavailableError) return undefined;
    throw error;
  }
}
