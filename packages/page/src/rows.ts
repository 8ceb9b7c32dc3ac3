/** Rows of the page, as the director sends them. Times are ms since 1970. */

export interface Shown {
  /** Problem that a user should check; absent when all is well. */
  readonly trouble?: string;
  /** Start of the present state. */
  readonly sinceMs?: number;
}

export interface HostRow extends Shown {
  /** suspected: the state is online or warning, but heartbeats are missing now. */
  readonly state: "online" | "warning" | "suspected" | "unavailable" | "dead";
  readonly az: string;
  readonly rack: string;
  /** CID of the VM that the host serves as; empty for none. */
  readonly vm: string;
  /** True: an operator keeps new disks and VMs off the host. */
  readonly isCordoned: boolean;
  /** State of the removal requested for the host; empty for none. */
  readonly removal: "" | "wanted" | "done";
  /** One letter per device of the host, in order of device id: a key of DEVICE_LETTERS. */
  readonly devices: string;
}

/** Returns the state of a host with its removal and cordon: others have the state of their heartbeats. */
export function hostStateOf({
  state,
  removal,
  isCordoned,
}: HostRow): HostRow["state"] | "leaving" | "removed" | "cordoned" {
  if (removal === "done") return "removed";
  if (state !== "online") return state;
  if (removal === "wanted") return "leaving";
  return isCordoned ? "cordoned" : state;
}

/** A device with trouble. Devices without trouble appear only as letters of their host. */
export interface DeviceRow extends Shown {
  readonly host: string;
  readonly state: string;
  readonly disk: string;
}

export interface DiskRow extends Shown {
  readonly state: "free" | "publishing" | "published" | "unpublishing" | "deleted";
  /** User's name of a deleted disk; absent for none. */
  readonly formerName?: string;
  /** Id of the host that the disk is published to; empty for none. */
  readonly host: string;
  readonly az: string;
  readonly pool: string;
  readonly sizeBytes: number;
  readonly health: string;
  /** True: a part of the disk is to move to another device. */
  readonly isMoving: boolean;
  /** Limits of its I/O, for people; empty for none. */
  readonly limits: string;
}

/** User's name of a disk, keyed by the disk's CID. */
export interface LabelRow extends Shown {
  readonly text: string;
  /** Set for a dynamic disk: what it can be attached to. */
  readonly of?: "host" | "instance";
  /** Set for a dynamic disk that is or may be attached. */
  readonly isAttached?: true;
}

/** An instance of a deployment, keyed by DEPLOYMENT/GROUP/INDEX, and its VM. */
export interface VmRow extends Shown {
  /** Id of the instance. */
  readonly id: string;
  readonly state: "none" | "creating" | "created" | "running" | "lost" | "deleting";
  /** CID of the instance's VM; empty for none. */
  readonly cid: string;
  /** Empty for the default CPI. */
  readonly cpi: string;
  readonly az: string;
  /** Jobs state that was last ordered from its agent. */
  readonly jobs: string;
  /** CIDs of the instance's persistent disks. */
  readonly disks: readonly string[];
  /** Minute of the agent's last message, in ms since 1970; 0 for never. */
  readonly heardMs: number;
}

export interface TaskRow extends Shown {
  readonly state: string;
  readonly description: string;
  readonly user: string;
  readonly deployment: string;
  readonly hasEnded: boolean;
  /** Percent and text of a vendor's method that tells them; empty otherwise. */
  readonly progress: string;
}

export interface LockRow extends Shown {
  readonly owner: string;
  /** 0 for no task. */
  readonly taskId: number;
  readonly waitingTaskIds: readonly number[];
}

export interface CpiRow extends Shown {
  readonly type: string;
  /** 0 when the CPI does not report it. */
  readonly apiVersion: number;
  readonly azs: readonly string[];
  /** Error of its last call; empty after a success. */
  readonly lastError: string;
}

/** A VM, disk or snapshot that may exist although nothing uses it, keyed by its token. */
export interface OrphanRow extends Shown {
  readonly what: "vm" | "disk" | "snapshot";
  /** Empty when the CPI did not tell it. The object can then be deleted only in the infrastructure. */
  readonly objectCid: string;
  readonly madeFor: string;
  readonly deployment: string;
  readonly reason: string;
}

/** Space of a pool in an az, keyed AZ/POOL. */
export interface PoolRow extends Shown {
  readonly az: string;
  readonly pool: string;
  readonly totalBytes: number;
  /** Bytes that new disks can use now. */
  readonly freeBytes: number;
  /** Size of the largest disk that can be created now, and of the largest one of one part. */
  readonly maxDiskBytes: number;
  readonly maxPartBytes: number;
  /** Bytes of deleted disks that can be brought back. */
  readonly deletedBytes: number;
  /** Bytes that must stay free so that any one host can be emptied. */
  readonly repairBytes: number;
}

/** State of a service from which the director gets rows. */
export interface SourceRow extends Shown {
  readonly state: "reading" | "live" | "silent";
  /** Remedies; absent when none is known. */
  readonly cures?: readonly Cure[];
}

export interface Cure {
  readonly what: string;
  /** Shell command; empty when the remedy is no command. */
  readonly command: string;
}

export interface Rows {
  readonly source: SourceRow;
  readonly host: HostRow;
  readonly device: DeviceRow;
  readonly disk: DiskRow;
  readonly label: LabelRow;
  readonly vm: VmRow;
  readonly task: TaskRow;
  readonly lock: LockRow;
  readonly cpi: CpiRow;
  readonly orphan: OrphanRow;
  readonly pool: PoolRow;
}

export type RowKind = keyof Rows;

/** One row in its present state; null when it is gone. */
type RowChange = readonly [kind: RowKind, name: string, row: Rows[RowKind] | null];

/** The rows that have changed since a former answer. */
export interface OverviewAnswer {
  /** Names this answer in the next request. */
  readonly since: string;
  /** True: this is the first of the answers with all rows, because the director does not know the former answer. */
  readonly isWhole: boolean;
  /** True: the next answer has more rows. */
  readonly hasMore: boolean;
  readonly rows: readonly RowChange[];
}

/** States of a device by letter. */
export const DEVICE_LETTERS = {
  a: "attached",
  g: "attaching",
  c: "closing",
  d: "detached",
  u: "unknown",
  w: "warning",
  x: "error",
} as const;

export type DeviceLetter = keyof typeof DEVICE_LETTERS;

/** Text lines that describe the effect of an action, planned or done. */
export interface ActionAnswer {
  readonly lines: readonly string[];
  /** The operator's command that does the same. */
  readonly command: string;
  /** Task that does it; absent for an action without a task. */
  readonly taskId?: number;
  /** Set when the action is incomplete: repeat it after this time. */
  readonly againAfterMs?: number;
}

export interface WhyAnswer {
  readonly summary: string;
  readonly causes: readonly {
    readonly kind: string;
    readonly name: string;
    readonly reason: string;
    readonly message: string;
    readonly sinceMs?: number;
    readonly nextTryAtMs?: number;
    readonly cures: readonly Cure[];
  }[];
}

/** An object with a link. */
export interface ThingName {
  readonly kind: string;
  readonly name: string;
}

export interface EventEntry {
  /** Unique among the events of all services. */
  readonly id: string;
  readonly timeMs: number;
  readonly who: string;
  readonly what: string;
  /** Objects that the event is about. */
  readonly things: readonly ThingName[];
  readonly message: string;
  readonly isFailure: boolean;
}

/** Events, newest first. */
export interface EventsAnswer {
  readonly entries: readonly EventEntry[];
  /** Sources that could not be queried. */
  readonly missing: readonly string[];
  /** Set when there are earlier events, all before this time. */
  readonly beforeMs?: number;
}

/** The fields of a registry's Device that the page shows. */
export interface DeviceItem {
  readonly deviceId: string;
  readonly hostId: string;
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  readonly pool: string;
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
  readonly attachState: string;
  readonly health: string;
  readonly diskId: string;
  readonly diskCount: number;
  readonly dirty: boolean;
  readonly trouble?: { readonly sentence: string } | undefined;
}

/** The fields of a registry's DiskPart that the page shows. */
export interface PartItem {
  readonly sizeBytes: number;
  readonly copies: readonly { readonly deviceId: string; readonly hostId: string; readonly state: string }[];
  readonly move?:
    | {
        readonly message: string;
        readonly copiedBytes: number;
        readonly bytesPerSecond: number;
        readonly remainingMs: number;
      }
    | undefined;
}

/** Facts of a disk that its row lacks. */
export interface DiskPanelAnswer {
  /** Path of the disk on its host; empty when it is not published. */
  readonly path: string;
  /** True: the host has not confirmed the present limits or size. */
  readonly limitsPending: boolean;
  /** I/O as of the host's last heartbeat; absent when the disk is not published, and before the heartbeat. */
  readonly io?: {
    readonly reads: number;
    readonly readBytes: number;
    readonly writes: number;
    readonly writtenBytes: number;
    /** Failed requests. */
    readonly errors: number;
    /** True: the disk has no counters of its own, and the counters are 0. */
    readonly isUncounted: boolean;
    /** Requests without an answer, and the age of the oldest. */
    readonly openRequests: number;
    readonly oldestMs: number;
    /** Open requests that the limits delay. */
    readonly throttledRequests: number;
    /** Part that has not answered the oldest request; empty when unknown. */
    readonly waitsFor: string;
  };
}

/** Facts of a host that its row lacks. */
export interface HostPanelAnswer {
  /** Address of the agent, as "address:port". */
  readonly address: string;
  readonly stateMessage: string;
  readonly registeredMs?: number;
  /** Time of the last heartbeat. */
  readonly heardMs?: number;
  readonly maintenanceEndMs?: number;
}

/** The newest kept changes of a host, device or disk, newest first. A commit of 0.1.0 has no time. */
export interface JournalAnswer {
  readonly changes: readonly {
    readonly commit: string;
    readonly timeMs?: number;
    readonly cause: string;
    readonly details: readonly string[];
  }[];
  /** False when the registry's store is a database. True of `isComplete`: all changes since the store was made are kept. */
  readonly areKept: boolean;
  readonly isComplete: boolean;
  readonly hasMore: boolean;
  readonly keptFromMs?: number;
}

/** Facts of a service. */
export interface ServicePanelAnswer {
  /** Addresses of its processes, from the director's config. */
  readonly addresses: readonly string[];
  /** Sentence of the process that answered about its state, version and certificate; empty when it cannot be asked. */
  readonly summary: string;
}

/**
 * The parts of a disk in the order of its bytes, the devices of their copies without purged ones, and the disk's facts,
 * which an unknown disk lacks.
 */
export interface PartsAnswer extends Partial<DiskPanelAnswer> {
  readonly parts: readonly PartItem[];
  readonly devices: readonly DeviceItem[];
}

/** A step of a task, or a warning. */
export interface TaskStep {
  readonly name: string;
  readonly state: "processing" | "done" | "error";
  readonly startedMs: number;
  /** Absent while the step runs. */
  readonly endedMs?: number;
  readonly message: string;
}

/** Action of the page that does a failed task again. */
export interface Retry {
  /** Object that the action is of. */
  readonly kind: string;
  readonly name: string;
  /** Last part of the action's path. */
  readonly action: string;
  /** The task's values of the action's fields. */
  readonly values: Readonly<Record<string, string>>;
}

/** Content of a task's panel, beside its row. */
export interface TaskPanelAnswer {
  /** The latest steps, in the order of their starts. */
  readonly steps: readonly TaskStep[];
  /** Number of earlier steps that are left out. */
  readonly omitted: number;
  /** Number of directors that have run the task. */
  readonly attempts: number;
  readonly retry?: Retry;
}

/** Activity of the mesh in the time before `atMs`, up to the sample before it. */
export interface ActivitySample {
  readonly atMs: number;
  /** I/O of all published disks per second; null while a registry does not say. */
  readonly io: {
    readonly reads: number;
    readonly readBytes: number;
    readonly writes: number;
    readonly writtenBytes: number;
  } | null;
  /** Numbers of tasks. */
  readonly tasks: {
    readonly running: number;
    readonly queued: number;
    readonly ended: number;
    readonly failed: number;
  };
}
