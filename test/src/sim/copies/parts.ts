import type { CopyRequest, Holder, HolderOrder } from "@diskmesh/disk-agent/simulation";
import type { CopiedDisk } from "@diskmesh/disk-registry/simulation";
import type { CopyRecord, DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import type { Timeline } from "../seed/timeline.js";
import type { Observer } from "../seed/violation.js";
import type { CopyFaults } from "./faults.js";

/** Blocks of each part of a disk. */
export const BLOCKS = 3;
/** Content of a block that was erased. */
export const ERASED = 0;

export const REGISTRY = "registry";

export type Io =
  | { readonly kind: "ping" | "flush" }
  | { readonly kind: "read"; readonly block: number }
  | { readonly kind: "write"; readonly block: number; readonly value: number }
  /** Flushes what was written before, and then writes the record through all caches. */
  | { readonly kind: "record"; readonly record: CopyRecord };

export type IoAnswer =
  | { readonly is: "done"; readonly value: number; readonly bootId: string }
  | { readonly is: "failed" | "superseded"; readonly bootId: string };

/** Registration of an agent. */
export interface Registration {
  readonly hostId: HostId;
  readonly runId: string;
  /** Sessions of the disks that it serves. */
  readonly served: ReadonlyMap<DiskId, number>;
}

/** A holder's message to the registry. `revision` is the one in which it says so. */
export interface Said {
  readonly diskId: DiskId;
  readonly session: number;
  readonly revision: number;
  readonly says: "DROP" | "EQUAL" | "FOLLOWING" | "CUT" | "SNAPSHOT_FAILED" | "STUCK";
  readonly part?: number;
  readonly deviceId?: DeviceId;
  readonly jobId?: string;
}

interface CleanEnd {
  readonly revision: number;
  readonly isClean: boolean;
}

/** A way to answer a message; a handler that does not use it does not answer. */
export type Answer<T> = (value: T) => void;

/** A block of a disk. */
export interface BlockAt {
  readonly diskId: DiskId;
  readonly part: number;
  readonly block: number;
}

/** The simulated world, as its parts use it. */
export interface CopyWorld extends Observer {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly faults: CopyFaults;
  /** True while the trace is kept. */
  readonly isTraced: boolean;
  readonly hostIds: readonly HostId[];
  readonly deviceIds: readonly DeviceId[];
  /** Hosts on which users want the disks. */
  readonly wants: ReadonlyMap<DiskId, HostId>;
  /** True once an operator wants the disk no more. */
  isDeleted(diskId: DiskId): boolean;
  hostOf(deviceId: DeviceId): HostId;
  driveOf(deviceId: DeviceId): SimDrive;
  machineOf(hostId: HostId): SimMachine;
  snapshotId(jobId: string): DiskId;
  /** Has `handle` answer at the other end, and `answered` hear it. Messages are late, lost, or come twice. */
  call<T>(from: string, to: string, handle: (answer: Answer<T>) => void, answered: Answer<T>): void;
  /** Brings I/O to a drive over a connection that waits while the hosts are cut from each other. */
  io(from: HostId, deviceId: DeviceId, send: (answer: Answer<IoAnswer>) => void, answered: Answer<IoAnswer>): void;
  after(delayMs: number, run: () => void): void;
  readonly registry: {
    hear(said: Said, answer: Answer<HolderOrder | undefined>): void;
    register(registration: Registration, answer: Answer<true>): void;
    heartbeat(hostId: HostId, runId: string, answer: Answer<boolean>): void;
  };
  readonly watch: {
    readonly flaps: { heard(hostId: HostId, nowMs: number): void; forget(): void };
    obeyedDrop(disk: CopiedDisk, said: Said): void;
    committed(before: CopiedDisk | undefined, after: CopiedDisk): void;
    deleted(diskId: DiskId): void;
    chosen(diskId: DiskId, part: number, holder: object): void;
    equal(before: Holder, now: Holder, running: readonly { readonly request: CopyRequest }[]): void;
    cut(diskId: DiskId, jobId: string, targets: readonly DeviceId[]): void;
    readFrom(diskId: DiskId, part: number, deviceId: DeviceId): void;
    losesPower(drive: SimDrive): void;
  };
}

export interface SimDrive {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  /** Contents by block, as a read returns them, and as a power failure leaves them. */
  readonly contents: readonly number[];
  readonly durable: readonly number[];
  /** Record of the disk's bytes; undefined where no disk has any. */
  readonly ownRecord: CopyRecord | undefined;
  /** Time of the failure that lasts for good. */
  readonly diedAtMs: number | undefined;
  /** Boot of its machine. */
  readonly bootId: string;
  /** Session whose holder may touch the bytes. */
  readonly session: number;
  open(session: number, answered: (isGranted: boolean, highest: number) => void): void;
  writeRecord(record: CopyRecord): void;
  look(answered: (record: CopyRecord | undefined) => void): void;
  erase(session: number, answered: (isErased: boolean, highest: number) => void): void;
  io(session: number, connection: number, io: Io, answered: Answer<IoAnswer>): void;
}

interface SimMachine {
  serve(diskId: DiskId, runId: string, order: HolderOrder, answer: Answer<boolean>): void;
  end(diskId: DiskId, session: number, answer: Answer<CleanEnd>): void;
}
