import { type DiskId, messageOf } from "@diskmesh/domain";
import type { ServedDisk } from "../engines/engine.js";
import type { AgentMemory } from "../model/memory.js";

/** Why users of this host cannot use a disk that it is to serve. */
export interface DiskProblem {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
  readonly message: string;
  /** Whole number, as the wire carries it. */
  readonly ageMs: number;
}

/** Knows which disks cannot be used, and since when. */
export class DiskProblems {
  /** Reasons why disks that are to be served are not. */
  readonly #faults = new Map<DiskId, string>();
  /** Reasons why users cannot open served disks whose socket is gone. */
  readonly #unreachable = new Map<DiskId, string>();
  /** Moments of a monotonic clock, which has parts of a millisecond. */
  #sinceMs: ReadonlyMap<DiskId, number> = new Map();

  noteFault(diskId: DiskId, error: unknown): void {
    this.#faults.set(diskId, `the host does not serve it: ${messageOf(error)}`);
  }

  noteUnreachable(diskId: DiskId, error: unknown): void {
    this.#unreachable.set(
      diskId,
      `its socket is gone, and cannot be made again (put its folder back, or free space there): ${messageOf(error)}`,
    );
  }

  noteReachable(diskId: DiskId): void {
    this.#unreachable.delete(diskId);
  }

  noteServed(diskId: DiskId): void {
    this.#faults.delete(diskId);
  }

  /** Returns the problems of the disks that are to be served. `find` returns a disk that is served. */
  list(
    exports: AgentMemory["exports"],
    find: (diskId: DiskId) => Pick<ServedDisk, "problem"> | undefined,
    nowMs: number,
  ): readonly DiskProblem[] {
    for (const reasons of [this.#faults, this.#unreachable])
      for (const diskId of reasons.keys()) if (exports.get(diskId)?.spec === undefined) reasons.delete(diskId);
    const since = new Map<DiskId, number>();
    const found = [...exports].flatMap(([diskId, { spec }]): DiskProblem[] => {
      const served = find(diskId);
      const message =
        served === undefined ? this.#faults.get(diskId) : (served.problem ?? this.#unreachable.get(diskId));
      if (spec === undefined || message === undefined) return [];
      const sinceMs = this.#sinceMs.get(diskId) ?? nowMs;
      since.set(diskId, sinceMs);
      return [{ diskId, sessionNumber: spec.sessionNumber, message, ageMs: Math.floor(nowMs - sinceMs) }];
    });
    this.#sinceMs = since;
    return found;
  }
}
