import { type HostId, type Logger, messageOf } from "@diskmesh/domain";
import type { IoCounters } from "../base/io-counters.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import { isMoving } from "../model/exports.js";
import { type DiskRole, isWholeSectors, lastDeviceOf, lastMaking, SECTOR_BYTES } from "../model/mapped-devices.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import type { Engine, ServedDisk } from "./engine.js";
import { KernelDisk } from "./kernel-disk.js";
import { type KernelPart, LocalKernelPart } from "./kernel-part.js";

/** Parts of disks on devices of other hosts. */
export interface RemoteKernelParts {
  /** Reason why this host has no parts of other hosts; undefined when it may have some. */
  readonly whyNot: string | undefined;
  /** Returns why the hosts of these devices do not serve them; undefined when they do. Throws when one does not answer. */
  whyNotThere(devices: readonly ExportDevice[], spec: ExportSpec): Promise<string | undefined>;
  of(device: ExportDevice, spec: ExportSpec): KernelPart;
  /** Ends what former lives of the agent left of sessions that are not served. */
  endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void>;
}

interface KernelEngineOptions {
  readonly hostId: HostId;
  /** Folder of the links to the disks' devices. */
  readonly folder: string;
  readonly devices: DeviceTable;
  readonly mapper: DeviceMapper;
  readonly remote: RemoteKernelParts;
  /** Counters of the disks' I/O. */
  readonly io?: Pick<IoCounters, "follow"> | undefined;
  readonly log: Logger;
}

/**
 * Makes each disk a block device of the kernel's device-mapper, on the legs of its session. No process carries bytes, so
 * nothing of the agent's life changes I/O. The kernel's tables are the only record, and tell a later life what there is.
 */
export class KernelEngine implements Engine {
  readonly name = "kernel";
  readonly servesDevices = true;
  readonly #options: KernelEngineOptions;
  /** Number of the disks' devices made so far, those of former lives that are there included. */
  #making: number | undefined;

  constructor(options: KernelEngineOptions) {
    this.#options = options;
  }

  whyNot(spec: ExportSpec): string | undefined {
    const { remote } = this.#options;
    const whyNever = this.#whyNever(spec);
    if (whyNever !== undefined || this.#elsewhere(spec).length === 0 || remote.whyNot === undefined) return whyNever;
    return `a part of it is on another host, and ${remote.whyNot}`;
  }

  async whyNotNow(spec: ExportSpec): Promise<string | undefined> {
    const elsewhere = this.#elsewhere(spec);
    return elsewhere.length === 0 ? undefined : this.#options.remote.whyNotThere(elsewhere, spec);
  }

  #elsewhere({ extents }: ExportSpec): readonly ExportDevice[] {
    return extents.filter(({ hostId }) => hostId !== this.#options.hostId);
  }

  /** Returns why no host could serve the disk by this engine. */
  #whyNever(spec: ExportSpec): string | undefined {
    if (spec.exportKind === "NBD") return "it is to be an NBD socket";
    if (isMoving(spec)) return "a part of it moves";
    if (spec.limits !== undefined) return "its I/O is limited";
    if (spec.extents.some((part) => ![part.offsetBytes ?? 0, part.sizeBytes].every(isWholeSectors)))
      return `a part of it is no multiple of ${SECTOR_BYTES} bytes`;
    return undefined;
  }

  async serve(spec: ExportSpec): Promise<ServedDisk> {
    const { mapper } = this.#options;
    const { diskId, sessionNumber } = spec;
    this.#making ??= lastMaking(await mapper.list());
    this.#making += 1;
    const disk = this.#disk(spec, { kind: "disk", sessionNumber, making: this.#making, diskId });
    try {
      await disk.make(spec);
      return disk;
    } catch (error) {
      await disk.end();
      throw error;
    }
  }

  async adopt(spec: ExportSpec): Promise<ServedDisk | undefined> {
    const { devices, mapper, hostId } = this.#options;
    const { diskId, sessionNumber, extents } = spec;
    const isKnown = extents.every((part) => part.hostId !== hostId || devices.has(part.deviceId));
    // A disk that a former life has carried goes on, also where the config has changed.
    if (this.#whyNever(spec) !== undefined || !isKnown) return undefined;
    const found = lastDeviceOf(await mapper.list(), diskId, sessionNumber);
    if (found === undefined) return undefined;
    const disk = this.#disk(spec, found.role);
    return (await disk.adopt(spec, found)) ? disk : undefined;
  }

  async endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    const { mapper, log } = this.#options;
    const left = (await mapper.list()).filter(({ role }) => role.kind === "disk" && !isServed(role.sessionNumber));
    for (const { role } of left)
      try {
        const failure = await mapper.cut(role);
        if (failure !== undefined) log.error({ ...role, reason: failure }, "drives not flushed at the end of a disk");
        await mapper.remove(role, { isDeferred: true });
        log.info({ ...role }, "device of a disk that is not served any more removed");
      } catch (error) {
        log.error({ ...role, error: messageOf(error) }, "device of a disk that is not served any more not removed");
      }
    await this.#options.remote.endLeftovers(isServed);
  }

  #disk(spec: ExportSpec, role: DiskRole): KernelDisk {
    return new KernelDisk(spec, role, { ...this.#options, partsOf: (of) => this.#partsOf(of) });
  }

  #partsOf(spec: ExportSpec): readonly KernelPart[] {
    const { devices, hostId, remote } = this.#options;
    return spec.extents.map((extent) => {
      const { deviceId, offsetBytes = 0, sizeBytes, sessionNumber = spec.sessionNumber } = extent;
      if (extent.hostId !== hostId) return remote.of(extent, spec);
      return new LocalKernelPart(devices.get(deviceId), sessionNumber, { offsetBytes, sizeBytes });
    });
  }
}
