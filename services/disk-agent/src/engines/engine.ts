import type { Mirrored, MirrorStatus } from "../mirror/mirror.js";
import type { CopiedTarget } from "../mirror/movable-part.js";
import type { IoQueue } from "../model/io-queue.js";
import type { ExportSpec } from "../model/memory.js";

export type EngineName = "node" | "kernel";

/** Carries the bytes of disks: it serves a disk of a granted session to the programs of this host. */
export interface Engine {
  readonly name: EngineName;
  /** True when the paths of its disks are links to block devices, and not NBD sockets. */
  readonly servesDevices?: boolean;
  /** Returns why this engine cannot serve the disk; undefined when it can. */
  whyNot(spec: ExportSpec): string | undefined;
  /**
   * Asks the hosts of the disk's devices why this engine cannot serve the disk; undefined when it can. Throws when one does
   * not answer. Absent for an engine that needs nothing of them.
   */
  whyNotNow?(spec: ExportSpec): Promise<string | undefined>;
  /**
   * Serves the disk. Throws UnavailableError when that may succeed later, for example while a device is not attached.
   */
  serve(spec: ExportSpec): Promise<ServedDisk>;
  /**
   * Returns the disk when the kernel has carried it in this session since a former life of the agent, perhaps with the extents
   * of an earlier revision. Called before the devices are opened. Absent for an engine whose disks end with the agent.
   */
  adopt?(spec: ExportSpec): Promise<ServedDisk | undefined>;
  /** Ends what former lives of the agent left of sessions that are not served. */
  endLeftovers?(isServed: (sessionNumber: number) => boolean): Promise<void>;
}

/** A disk that an engine serves. */
export interface ServedDisk {
  /** Path that programs of this host open. */
  readonly path: string;
  /** True when appended devices need another export. */
  readonly isFixedSize: boolean;
  /** Resolves with the reason when the disk is no longer served although nobody called `end`. */
  readonly lost?: Promise<string>;
  /**
   * Returns why the disk cannot be brought to a later revision of the spec while it is served; undefined when it can. An order
   * is refused with it before it is remembered.
   */
  whyNotChange?(spec: ExportSpec): string | undefined;
  /**
   * Brings the disk to the limits and extents of a later revision of the spec, without an interruption of its I/O.
   */
  change(spec: ExportSpec): Promise<void>;
  /**
   * Sets the rate of the mirror of a part, and returns how far it is; undefined when there is no such mirror. Its answer
   * EQUAL binds.
   */
  askMirror(mirrored: Mirrored, bytesPerSecond: number): MirrorStatus | undefined;
  /** Reason why users of this host cannot use the disk; undefined while they can. */
  readonly problem?: string | undefined;
  /**
   * Returns the requests of users that are not answered; undefined while they are not known. `nowMs` is of a monotonic clock.
   */
  queue(nowMs: number): IoQueue | undefined;
  /** Writes back what the host caches of the disk. Throws UnavailableError while that takes long. */
  writeBack?(): Promise<void>;
  /**
   * Takes the disk from its users if none is left. Throws InvalidStateError (DISK_IN_USE) otherwise, and lets no new ones
   * in; those that are left go on.
   */
  release?(): Promise<void>;
  /**
   * Ends the changes of the parts that move, before `end`, for a disk that was taken from its users. Returns the targets with
   * the bytes that both copies have alike, durably.
   */
  sealMoves(): Promise<readonly CopiedTarget[]>;
  /** Resolves once no I/O of the session can begin, and none is left that this engine submitted. */
  end(): Promise<void>;
  /** Ends the agent's part at its stop. What outlives the agent goes on. */
  leave(): Promise<void>;
  /** Looks for problems that the engine is not told of. Called periodically. */
  look?(): Promise<void>;
  /** Returns whether the path exists. */
  isReachable(): Promise<boolean>;
  /** Makes the path again when it was removed or is dead; returns whether that was necessary. */
  restore(): Promise<boolean>;
}
