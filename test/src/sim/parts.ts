import type { HostState, OnHostSilence, UnknownDiskVerdict } from "@diskmesh/api/registry";
import type { AgentContext, DiskPart } from "@diskmesh/disk-agent/simulation";
import type {
  Context as RegistryContext,
  Device as StoredDevice,
  Disk as StoredDisk,
} from "@diskmesh/disk-registry/simulation";
import type { Change } from "@diskmesh/tablet";
import type { Random } from "../random.js";
import type { BlockContents } from "./drive.js";
import type { Faults } from "./faults.js";
import type { Machine } from "./machine.js";
import type { SimNetwork } from "./network.js";
import type { SimProcess, Timeline } from "./seed/timeline.js";
import type { Observer } from "./seed/violation.js";
import type { SimStore } from "./store.js";

/** Interface of the simulated world for its parts. */
export interface World extends Observer {
  readonly timeline: Timeline;
  readonly random: Random;
  /** Faults that are active now. */
  readonly faults: Faults;
  readonly hosts: readonly string[];
  readonly network: SimNetwork;
  /** Store of the registry's current history (see Rewinds). */
  store: SimStore;
  readonly scenario:
    | {
        readonly name: string;
        readonly plan?: (world: World) => Plan;
        readonly unmarkedDrives?: number;
        readonly copyBytesPerSecond?: number;
        readonly slices?: number;
      }
    | undefined;
  readonly isBuilding: boolean;
  /** Blocks of a smallest device: one, or a label and a slice. A drive has twice as many. */
  readonly smallestBlocks: number;
  placesOf(host: string): readonly DevicePlace[];
  agents(): readonly AgentRun[];
  agentOf(host: string): AgentRun | undefined;
  agentStarted(agent: AgentRun): void;
  endAgent(agent: AgentRun, powerLoss: boolean): void;
  machines(): readonly Machine[];
  registries(): readonly RegistryRun[];
  leader(): RegistryRun | undefined;
  startRegistry(): void;
  endRegistry(registry: RegistryRun): void;
  serviceRandom(): () => number;
  epochMs(): number;
  readonly orders: {
    readonly confirmedAttach: ReadonlyMap<string, ReadonlySet<number>>;
    readonly confirmedDetach: ReadonlyMap<string, ReadonlySet<number>>;
    readonly granted: ReadonlyMap<string, ReadonlySet<number>>;
    /** Highest session by device and index of the block, as "<device> <block>". */
    readonly highestGranted: ReadonlyMap<string, number>;
    readonly erased: ReadonlyMap<string, ReadonlySet<number>>;
    wasAsked(session: number): boolean;
    copy(): Confirmed;
    rewind(then: Confirmed): void;
  };
  readonly moves: {
    readonly copied: number;
    readonly mirrored: number;
    readonly goneOn: number;
    received(method: string, request: unknown): void;
    answered(method: string, request: unknown, response: unknown): void;
    isOwnSession(deviceId: string, session: number): boolean;
    committed(before: StoredDisk | undefined, after: StoredDisk | undefined): void;
  };
  readonly bytes: {
    begin(diskId: string, session: number, block: number, life: Life): UserWrite;
    acknowledge(write: UserWrite): void;
    lastAcknowledged(life: Life, block: number): number;
    requireRead(read: BlockRead): void;
    requireKept(disk: StoredDisk): void;
    requireAlike(one: StoredDisk, other: StoredDisk): void;
    requireAlone(device: StoredDevice): void;
    requireClean(device: StoredDevice, registeredBootId: string | undefined): void;
    requireErased(host: string, run: RunOfDevice): void;
    isInTheWay(hostId: string, deviceId: string): boolean;
    isShared(hostId: string, deviceId: string): boolean;
    isOwnDrive(host: string, deviceId: string): boolean | undefined;
    isOthersDrive(host: string, deviceId: string): boolean;
    isDriveOf(host: string, deviceId: string, formerId: string): boolean;
    noteAdopted(host: string, deviceId: string): void;
  };
  readonly adoptions: {
    ask(deviceId: string): void;
    begin(changes: readonly Change[]): ReadonlyMap<string, StoredDevice>;
    isAdopted(deviceId: string, formerId: string): boolean;
  };
  readonly lives: {
    sent(method: string, request: unknown, from: SimProcess): void;
    received(method: string, request: unknown, server: SimProcess, from: SimProcess): void;
    granted(deviceId: string, diskId: string, session: number): void;
    named(deviceId: string, diskId: string): void;
    rewind(from: SimStore, to: SimStore): void;
    giveUp(deviceId: string): void;
    decide(deviceId: string): void;
    cannotTell(host: string): void;
    requireNotForgotten(deviceId: string, session: number, replaced: Life): void;
    ofExport(host: string, diskId: string, session: number): Life;
    ofDisk(disk: StoredDisk): Life;
    isRight(device: StoredDevice): boolean;
    isDecided(deviceId: string): boolean;
    isCurrent(life: Life): boolean;
    isKnown(life: Life, diskId: string): boolean;
    isErase(deviceId: string, session: number): boolean;
  };
  readonly rewinds: {
    readonly epoch: number;
    readonly isAlone: boolean;
    began(process: SimProcess, store: SimStore): void;
    storeOf(process: SimProcess): SimStore;
    epochOf(process: SimProcess): number;
    hasRegistered(host: string): void;
    isUnheard(host: string): boolean;
    betweenSteps(): void;
    backUp(): void;
    goBack(): void;
    stop(): void;
  };
  readonly acknowledged: {
    begin(names: readonly string[]): Operation;
    check(): void;
    copy(): AcknowledgedCopy;
    rewind(then: AcknowledgedCopy): void;
  };
  readonly requests: {
    hear(request: unknown, byLeader: boolean): void;
    cms(method: CmsMethod, request: CmsRequest): void;
    createDisk(diskId: string, sizeBytes: number, hostId: string): void;
    deleteDisk(diskId: string): void;
    resizeDisk(diskId: string, sizeBytes: number): void;
    publishDisk(diskId: string, hostId: string, onHostSilence?: OnHostSilence): void;
    unpublishDisk(diskId: string, hostId: string): void;
    decideUnknown(device: StoredDevice, verdict: UnknownDiskVerdict): void;
    confirmDevice(device: StoredDevice): void;
    adoptDevice(place: Selector): void;
    sayWhoLeads(): void;
    fenceHost(hostId: string): void;
    setHostState(hostIds: readonly string[], state: HostState.DEAD | HostState.ONLINE, fence?: boolean): void;
    setDeviceState(deviceIds: readonly string[]): void;
    move(method: MoveMethod, request: MoveRequest): void;
    /** Hosts for which a client ever requested to take back DEAD. */
    readonly takenBack: ReadonlySet<string>;
  };
  readonly operator: { act(): void; seeToDrives(): void };
  readonly user: { act(): boolean };
  readonly state: { watch(store: SimStore): void };
}

/** One run of an agent process, from its start to its crash. */
export interface AgentRun {
  readonly process: SimProcess;
  readonly machine: Machine;
  readonly devices: readonly DevicePlace[];
  readonly context: AgentContext | undefined;
  /** Simulated time since which the agent tries to register. */
  readonly startedAtMs: number;
  /** True when the agent has run before and lost its cache: it may open nothing before it has registered. */
  readonly mustAsk: boolean;
  /** Served disks by disk id. */
  readonly served: ReadonlyMap<string, Served>;
  crash(powerLoss: boolean): void;
}

/** One run of a registry process, from its start to its crash. */
export interface RegistryRun {
  readonly process: SimProcess;
  readonly context: RegistryContext | undefined;
  /** Store whose history this registry continues. */
  readonly store: SimStore;
  crash(): void;
}

export interface DevicePlace {
  readonly deviceId: string;
  readonly path: string;
  readonly firstBlock: number;
  readonly blockCount: number;
}

/** Bytes of a device that an order is about; size 0 for all of them. */
export interface RunOfDevice {
  readonly deviceId: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** A disk that an agent serves to users on its host. */
export interface Served {
  readonly diskId: string;
  readonly disk: DiskPart;
  readonly sizeBytes: number;
  closed: boolean;
}

/** One existence of a disk: its name, and the registry history that created it. */
export interface Life {
  /** Distinguishes disks that had the same id. */
  readonly name: string;
  readonly diskId: string;
  readonly epoch: number;
}

/** A block that a disk's user wrote, or tried to write. */
export interface UserWrite {
  readonly number: number;
  readonly diskId: string;
  readonly session: number;
  /** Index of the block on the disk. */
  readonly block: number;
  readonly life: Life;
  /** True when the block has reached a drive. */
  landed: boolean;
}

/** Contents of a block that a disk's user has read. */
export interface BlockRead {
  readonly life: Life;
  /** Index of the block on the disk. */
  readonly block: number;
  readonly contents: BlockContents;
  /** Last write to the block that was acknowledged before the read. */
  readonly atLeast: number;
}

/** Orders and sessions that agents have confirmed, by device. */
export type Confirmed = Readonly<
  Record<"confirmedAttach" | "confirmedDetach" | "granted" | "erased", ReadonlyMap<string, ReadonlySet<number>>>
>;

/** A fact that must stay durable from its acknowledgement until a later request changes it. */
export interface Fact {
  readonly text: string;
  readonly holds: () => boolean;
}

/** All acknowledged facts at one moment. */
export type AcknowledgedCopy = ReadonlyMap<string, readonly Fact[]>;

/** One request, until no copy of it can take effect any more. */
export interface Operation {
  /** Records its acknowledgement: these facts hold unless another request was made meanwhile. */
  acknowledge(facts: readonly Fact[]): void;
  /** Records that no copy of it can take effect any more. */
  gone(): void;
}

/** Devices of a host: one by id, all on a path, or all. */
export interface Selector {
  readonly hostId: string;
  readonly deviceId?: string;
  readonly path?: string;
}

export type CmsRequest = Selector & {
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly keepData?: boolean;
  readonly acceptUnidentified?: boolean;
  readonly eraseForeign?: boolean;
};

export type CmsMethod = "addHost" | "removeHost" | "purgeHost" | "addDevice" | "removeDevice" | "purgeDevice";

export type MoveMethod = "migrateDisk" | "replaceDevice" | "cancelMove";

export interface MoveRequest {
  readonly diskId: string;
  readonly hostId?: string;
  readonly deviceId?: string;
}

/** Requests of an operator, one per turn. */
export type Plan = Generator<void, void, void>;
