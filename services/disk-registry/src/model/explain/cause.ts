import type { Cause as CauseOf, DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { FindSharers, SharedSerialNumbers } from "../devices/same-bytes.js";
import type { MoveProgress } from "../disks/move-progress.js";
import type { OpenIo } from "../disks/open-io.js";
import type { WhySuspected } from "../disks/placement.js";
import type { MissingNeed } from "../hosts/agent-needs.js";
import type { Device, Pending } from "../store/schema.js";

export type Subject =
  | { readonly kind: "HOST"; readonly name: HostId }
  | { readonly kind: "DEVICE"; readonly name: DeviceId }
  | { readonly kind: "DISK"; readonly name: DiskId }
  | { readonly kind: "POOL"; readonly name: string }
  /** A VM, named by its CPI's id (CID). The director knows more about it. */
  | { readonly kind: "VM"; readonly name: string };

/** All reasons that a cause may have, by kind of thing. */
export const REASONS = {
  HOST: [
    "STANDS_STILL",
    "SAID_DEAD",
    "AGENT_REFUSED",
    "REGISTRATION_REFUSED",
    "AGENT_SILENT",
    "MASS_SILENCE",
    "HEARTBEATS_MISSED",
    "ON_PROBATION",
    "AGENT_TAKES_NOTHING_NEW",
    "MUST_REGISTER",
    "AGENT_LACKS",
    "DRIVER_FAILED",
    "AGENT_WARNS",
    "FOREIGN_DEVICES",
    "REMOVAL_WAITS",
    "CORDONED",
    "IN_MAINTENANCE",
  ],
  DEVICE: [
    "LABEL_LOST",
    "LABEL_TWICE",
    "FOUND_ELSEWHERE",
    "FOREIGN_LABEL",
    "SAME_BYTES",
    "ORDER_PENDING",
    "UNHEALTHY",
    "TO_BE_ERASED",
    "HELD_BY_UNKNOWN_DISK",
    "NOT_REPORTED",
    "REPLACED",
    "REMOVAL_WAITS",
  ],
  DISK: [
    "FORGOTTEN",
    "PUBLICATION_PENDING",
    "CHANGE_PENDING",
    "UNPUBLICATION_PENDING",
    "FENCED",
    "HOST_IN_TROUBLE",
    "UNUSABLE_ON_HOST",
    "IO_STANDS",
    "DEVICE_IN_TROUBLE",
    "MOVING",
    "DELETED",
  ],
} as const;

type Reason = (typeof REASONS)[keyof typeof REASONS][number] | "NOT_ADDED" | "POOL_ROOM";

export type Cause = CauseOf<Subject, Reason>;

/** A refused connection or call under a host's name. */
export interface Refusal {
  /** Address of the refused agent, and the reason. */
  readonly message: string;
  /** Time since which the message is the same. */
  readonly sinceMs: number;
  readonly lastAtMs: number;
}

/** A refused registration of an agent with the host's own certificate. */
export interface RefusedRegistration extends Refusal {
  /** Address that the agent reports for itself. */
  readonly address: string;
  /** True: an agent with the host's certificate claimed another id. It may be another agent than the host's own. */
  readonly claimsOther?: boolean;
}

/** Facts that are not in the tables. */
export interface Known {
  readonly whySuspected: WhySuspected;
  readonly lastHeardAtMs: (hostId: HostId) => number | undefined;
  /** Returns what the host's agent lacks, by its last heartbeat. */
  readonly missingNeedsOf: (hostId: HostId) => readonly MissingNeed[];
  /** Returns the last refusal under a host's name; undefined when there was none lately. */
  readonly refusalOf: (hostId: HostId) => Refusal | undefined;
  /**
   * Returns the host's last refused registration; undefined when none was refused lately, or one was accepted since.
   */
  readonly refusedRegistrationOf: (hostId: HostId) => RefusedRegistration | undefined;
  readonly progressOf: (device: Device) => {
    readonly nextAttemptAtMs: number | undefined;
    readonly erasedBytes: number;
    readonly pending: Pending | undefined;
  };
  readonly moveProgressOf: (diskId: DiskId) => MoveProgress | undefined;
  /** Returns the open requests of a disk on a host; undefined when the host reported none to this leader. */
  readonly openIoOf: (diskId: DiskId, hostId: HostId) => OpenIo | undefined;
  /** Returns the engine that carries a disk on a host, and why no better one does; undefined while that is not known. */
  readonly engineOf: (diskId: DiskId, hostId: HostId) => { readonly name: string; readonly reason: string } | undefined;
  /** Returns why this registry gives no orders; undefined when it leads its fleet. */
  readonly standsStill: () => string | undefined;
  readonly serialNumbersOfMany: SharedSerialNumbers;
  /** Set when many devices are explained; undefined for one. */
  readonly findSharers?: FindSharers;
}
