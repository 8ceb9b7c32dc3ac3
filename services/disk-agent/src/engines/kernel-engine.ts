import { type HostId, type Logger, MIB_BYTES, messageOf } from "@diskmesh/domain";
import type { IoCounters } from "../base/io-counters.js";
import { AGENT_LIMITS } from "../base/limits.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import { isMoving } from "../model/exports.js";
import {
  type DiskRole,
  inOrderOfEnd,
  isWholeSectors,
  lastDeviceOf,
  lastMaking,
  type MappedDevice,
  SECTOR_BYTES,
} from "../model/mapped-devices.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import type { Engine, ServedDisk } from "./engine.js";
import { KernelDisk } from "./kernel-disk.js";
import type { KernelMoveLimits } from "./kernel-move.js";
import { KernelMoves } from "./kernel-moves.js";
import { type KernelPart, LocalKernelPart } from "./kernel-part.js";

const MOVE_LIMITS: KernelMoveLimits = {
  windowBytes: 1024 * MIB_BYTES,
  targetTimeoutMs: AGENT_LIMITS.mirrorTargetTimeoutMs,
  heldRequestMs: 2_000,
};

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
  readonly moves?: KernelMoveLimits | undefined;
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

  /** Returns why no part of the disk moves while this engine serves it; undefined when they may. */
  #whyNoMoves(spec: ExportSpec): string | undefined {
    const { mapper, hostId, remote } = this.#options;
    const isElsewhere = spec.extents.some(({ target }) => target !== undefined && target.hostId !== hostId);
    const whyNotThere = isElsewhere && remote.whyNot && `a part of it is to be on another host, and ${remote.whyNot}`;
    return mapper.whyNoMirror ?? (whyNotThere || undefined);
  }

  /** Returns why no host could serve the disk by this engine. */
  #whyNever(spec: ExportSpec): string | undefined {
    if (spec.exportKind === "NBD") return "it is to be an NBD socket";
    const whyNoMoves = isMoving(spec) ? this.#options.mapper.whyNoMirror : undefined;
    if (whyNoMoves !== undefined) return `a part of it moves, and ${whyNoMoves}`;
    if (spec.limits !== undefined) return "its I/O is limited";
    if (spec.extents.some((part) => ![part.offsetBytes ?? 0, part.sizeBytes].every(isWholeSectors)))
      return `a part of it is no multiple of ${SECTOR_BYTES} bytes`;
    return undefined;
  }

  async serve(spec: ExportSpec): Promise<ServedDisk> {
    const { diskId, sessionNumber } = spec;
    const disk = this.#disk(spec, { kind: "disk", sessionNumber, making: await this.#nextMaking(), diskId });
    try {
      await disk.make(spec);
      return disk;
    } catch (error) {
      await disk.end();
      throw error;
    }
  }

  async #nextMaking(): Promise<number> {
    this.#making ??= lastMaking(await this.#options.mapper.list());
    this.#making += 1;
    return this.#making;
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
    const isLeft = ({ role }: MappedDevice) => "making" in role && !isServed(role.sessionNumber);
    const left = (await mapper.list()).filter(isLeft);
    const kept = left.filter(({ role }) => role.kind === "part").map(({ number }) => number);
    // Requests that a part holds would hold its disk's.
    for (const role of inOrderOfEnd(left).wipe)
      try {
        const failure = await mapper.cut(role, { kept });
        if (failure !== undefined) log.error({ ...role, reason: failure }, "drives not flushed at the end of a disk");
        await mapper.remove(role, { isDeferred: true });
        log.info({ ...role }, "device of a disk that is not served any more removed");
      } catch (error) {
        log.error({ ...role, error: messageOf(error) }, "device of a disk that is not served any more not removed");
      }
    await this.#options.remote.endLeftovers(isServed);
  }

  #disk(spec: ExportSpec, role: DiskRole): KernelDisk {
    const { mapper, moves: limits = MOVE_LIMITS, log } = this.#options;
    const partOf = (device: ExportDevice, of: ExportSpec) => this.#partOf(device, of);
    const moves = new KernelMoves({ mapper, role, nextMaking: () => this.#nextMaking(), partOf, limits, log });
    const partsOf = (of: ExportSpec) => of.extents.map((extent) => partOf(extent, of));
    return new KernelDisk(spec, role, {
      ...this.#options,
      partsOf,
      moves,
      whyNoMoves: (of) => this.#whyNoMoves(of),
    });
  }

  #partOf(device: ExportDevice, spec: ExportSpec): KernelPart {
    const { devices, hostId, remote } = this.#options;
    const { deviceId, offsetBytes = 0, sizeBytes, sessionNumber = spec.sessionNumber } = device;
    if (device.hostId !== hostId) return remote.of(device, spec);
    return new LocalKernelPart(devices.get(deviceId), sessionNumber, { offsetBytes, sizeBytes });
  }
}
