import type { DiskIo, IoTotals } from "@diskmesh/api/registry";
import type { DiskId, HostId } from "@diskmesh/domain";
import { ioStands, type OpenIo } from "../model/disks/open-io.js";

/** A disk's I/O as its host reported it last. */
export interface ReportedIo {
  readonly io: DiskIo;
  /** Absent when no request was open. */
  readonly open?: OpenIo | undefined;
}

interface Reported {
  readonly bootId: string;
  readonly totals: IoTotals;
  readonly disks: ReadonlyMap<DiskId, ReportedIo>;
}

const NONE: IoTotals = { reads: 0, readBytes: 0, writes: 0, writtenBytes: 0 };

/** Sums the I/O that agents report in heartbeats. Kept in memory only: the sums begin at 0 with each leader. */
export class IoMeter {
  readonly #reported = new Map<HostId, Reported>();
  #sums = NONE;

  #sinceMs: number;

  constructor(private readonly nowMs: () => number) {
    this.#sinceMs = nowMs();
  }

  /** Start of the sums. They begin anew before one exceeds 2^53 - 1, which a client's decoder refuses. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  get totals(): IoTotals {
    return this.#sums;
  }

  /**
   * Adds a host's I/O since its last report. The first report of a host adds nothing, because an unknown part of its
   * I/O was before `sinceMs`. Returns the disks whose I/O stands now and did not before, or the other way around.
   */
  hear(
    hostId: HostId,
    bootId: string,
    totals: IoTotals,
    disks: ReadonlyMap<DiskId, ReportedIo> = new Map(),
  ): readonly DiskId[] {
    const last = this.#reported.get(hostId);
    this.#reported.set(hostId, { bootId, totals, disks });
    this.#add(bootId, totals, last);
    const before = last?.disks ?? new Map<DiskId, ReportedIo>();
    return [...new Set([...before.keys(), ...disks.keys()])].filter(
      (diskId) => ioStands(before.get(diskId)?.open) !== ioStands(disks.get(diskId)?.open),
    );
  }

  #add(bootId: string, totals: IoTotals, last: Reported | undefined): void {
    if (last === undefined) return;
    const before: IoTotals = last.bootId === bootId ? last.totals : NONE;
    const sum = this.#sums;
    // An agent's counters never decrease within one start; a report that overtook another one must not subtract.
    const grown = (field: keyof IoTotals): number => sum[field] + Math.max(0, totals[field] - before[field]);
    this.#sums = {
      reads: grown("reads"),
      readBytes: grown("readBytes"),
      writes: grown("writes"),
      writtenBytes: grown("writtenBytes"),
    };
    if (Object.values(this.#sums).every(Number.isSafeInteger)) return;
    this.#sums = NONE;
    this.#sinceMs = this.nowMs();
  }

  /** Returns a disk's I/O on a host, as the host reported it last. */
  diskIo(diskId: DiskId, hostId: HostId): DiskIo | undefined {
    return this.#reported.get(hostId)?.disks.get(diskId)?.io;
  }

  /** Returns the engine that carries a disk on a host; undefined while the host has not told it. */
  engineOf(diskId: DiskId, hostId: HostId): { readonly name: string; readonly reason: string } | undefined {
    const { engine: name = "", engineReason: reason = "" } = this.diskIo(diskId, hostId) ?? {};
    return name === "" ? undefined : { name, reason };
  }

  openIo(diskId: DiskId, hostId: HostId): OpenIo | undefined {
    return this.#reported.get(hostId)?.disks.get(diskId)?.open;
  }

  forget(hostId: HostId): void {
    this.#reported.delete(hostId);
  }
}
