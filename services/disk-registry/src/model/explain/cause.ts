import type { Cause as CauseOf, DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { FindSharers, SharedSerialNumbers } from "../devices/same-bytes.js";
import type { WhySuspected } from "../disks/placement.js";
import type { Device, Pending } from "../store/schema.js";

export type Subject =
  | { readonly kind: "HOST"; readonly name: HostId }
  | { readonly kind: "DEVICE"; readonly name: DeviceId }
  | { readonly kind: "DISK"; readonly name: DiskId }
  | { readonly kind: "POOL"; readonly name: string }
  /** By what a CPI calls it: the director knows more. */
  | { readonly kind: "VM"; readonly name: string };

/** The reasons that a trouble may have. */
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
    "FOREIGN_DEVICES",
    "REMOVAL_WAITS",
  ],
  DEVICE: [
    "SAME_BYTES",
    "ORDER_PENDING",
    "UNHEALTHY",
    "TO_BE_ERASED",
    "HELD_BY_UNKNOWN_DISK",
    "NOT_REPORTED",
    "REPLACED",
    "REMOVAL_WAITS",
  ],
  DISK: ["PUBLICATION_PENDING", "UNPUBLICATION_PENDING", "FENCED", "HOST_IN_TROUBLE", "DEVICE_IN_TROUBLE"],
} as const;

type Reason = (typeof REASONS)[keyof typeof REASONS][number] | "NOT_ADDED" | "POOL_ROOM";

export interface Cause extends CauseOf<Subject, Reason> {
  /** Nobody needs to act: the step is under way and has met no error, or nobody waits for it. */
  readonly isRoutine?: boolean;
}

/** Somebody was not let in who spoke in a host's name. */
export interface Refusal {
  /** Who, and why. */
  readonly message: string;
  /** Since when the message is the same. */
  readonly sinceMs: number;
  readonly lastAtMs: number;
}

/** A registration of an agent with the host's certificate was refused. */
export interface RefusedRegistration extends Refusal {
  /** Where that agent says that it is reached. */
  readonly address: string;
}

/** What is known beside what is stored. */
export interface Known {
  readonly whySuspected: WhySuspected;
  readonly lastHeardAtMs: (hostId: HostId) => number | undefined;
  /** The last one in a host's name; undefined when there was none lately. */
  readonly refusalOf: (hostId: HostId) => Refusal | undefined;
  /** The last registration of the host that was refused; undefined when none was lately, or it was taken since. */
  readonly refusedRegistrationOf: (hostId: HostId) => RefusedRegistration | undefined;
  readonly progressOf: (device: Device) => {
    readonly nextAttemptAtMs: number | undefined;
    readonly erasedBytes: number;
    readonly pending: Pending | undefined;
  };
  /** Why this registry orders nothing; undefined when it leads its fleet. */
  readonly standsStill: () => string | undefined;
  readonly serialNumbersOfMany: SharedSerialNumbers;
  /** Given where many devices are looked at; undefined for one. */
  readonly findSharers?: FindSharers;
}
