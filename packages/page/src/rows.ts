/** What the page shows of each thing: the shapes in which the director's feed sends them. Times are ms since 1970. */

/** Of every row. */
interface Shown {
  /** Why somebody should look at it; absent when all is well. */
  readonly trouble?: string;
  /** Since when it is as it is. */
  readonly sinceMs?: number;
}

export interface HostRow extends Shown {
  /** suspected: it would be online or warning, but its heartbeats are missing now. */
  readonly state: "online" | "warning" | "suspected" | "unavailable" | "dead";
  readonly az: string;
  readonly rack: string;
  /** The VM that it serves as, by what its CPI calls that; empty for none. */
  readonly vm: string;
  /** Whether somebody wants it out of operation, and whether it is. */
  readonly removal: "" | "wanted" | "done";
  /** A letter for each of its devices in order of id: a key of DEVICE_LETTERS. */
  readonly devices: string;
}

/** A device that somebody should look at. The others are letters of their hosts. */
export interface DeviceRow extends Shown {
  readonly host: string;
  readonly state: string;
  readonly disk: string;
}

export interface DiskRow extends Shown {
  readonly state: "free" | "publishing" | "published" | "unpublishing";
  /** Where it is published; empty for nowhere. */
  readonly host: string;
  readonly az: string;
  readonly pool: string;
  readonly sizeBytes: number;
  readonly health: string;
}

/** What users call a disk, by what its CPI calls it. */
interface LabelRow extends Shown {
  readonly text: string;
}

/** An instance of a deployment, by DEPLOYMENT/GROUP/INDEX, with its VM. */
export interface VmRow extends Shown {
  readonly state: "none" | "creating" | "created" | "running" | "lost" | "deleting";
  /** What its CPI calls its VM; empty for none. */
  readonly cid: string;
  /** Empty for the default one. */
  readonly cpi: string;
  readonly az: string;
  /** What its agent was told of its jobs. */
  readonly jobs: string;
  /** What the CPI calls the disks that are its own. */
  readonly disks: readonly string[];
  /** When its agent was last heard, to the minute; 0: never. */
  readonly heardMs: number;
}

export interface TaskRow extends Shown {
  readonly state: string;
  readonly description: string;
  readonly user: string;
  readonly deployment: string;
  readonly result: string;
  readonly hasEnded: boolean;
}

export interface LockRow extends Shown {
  /** Who holds it. */
  readonly owner: string;
  /** 0 for no task. */
  readonly taskId: number;
  readonly waitingTaskIds: readonly number[];
}

export interface CpiRow extends Shown {
  readonly type: string;
  /** 0 when it does not say. */
  readonly apiVersion: number;
  readonly azs: readonly string[];
  /** What its last call met; empty after a success. */
  readonly lastError: string;
}

/** Whoever the rest is known from. */
export interface SourceRow extends Shown {
  readonly state: "reading" | "live" | "silent";
  /** What helps; absent where nothing is known to. */
  readonly cures?: readonly Cure[];
}

export interface Cure {
  readonly what: string;
  /** Empty where it is none. */
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
}

export type RowKind = keyof Rows;

/** One row as it is now; null: it is gone. */
export type RowChange = readonly [kind: RowKind, name: string, row: Rows[RowKind] | null];

/** States of a device, by its letter. */
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

/** What an action would do, or did, in lines for people. */
export interface ActionAnswer {
  readonly lines: readonly string[];
  /** It is wanted and not done yet: to be asked for again after so long. */
  readonly againAfterMs?: number;
}

/** Why a thing is as it is. */
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

/** Something that happened to a thing. */
export interface TimelineEntry {
  readonly timeMs: number;
  readonly who: string;
  readonly what: string;
  readonly message: string;
  readonly isFailure: boolean;
}

/** Newest first. */
export interface TimelineAnswer {
  readonly entries: readonly TimelineEntry[];
  /** What could not be asked for. */
  readonly missing: readonly string[];
}

/** A device of one host. */
export interface DeviceItem {
  readonly id: string;
  readonly state: string;
  readonly health: string;
  readonly disk: string;
  readonly sizeBytes: number;
  readonly note: string;
}
