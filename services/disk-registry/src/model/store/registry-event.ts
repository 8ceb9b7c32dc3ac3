import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";

/** What somebody, or this registry by itself, has done, in the same transaction as that. */
export interface RegistryEvent {
  /** Counts up from 1. */
  readonly eventId: number;
  readonly atMs: number;
  /** The role and name of a certificate, or "disk-registry". */
  readonly user: string;
  /** The name of an RPC, or of what this registry did by itself. */
  readonly action: string;
  /** What it changed, the first of each. */
  readonly hostIds: readonly HostId[];
  readonly deviceIds: readonly DeviceId[];
  readonly diskIds: readonly DiskId[];
  /** It changed more than these. */
  readonly more?: true | undefined;
  readonly answer: string;
  readonly message: string;
  /** Of the call; absent of what this registry did by itself, and in events of earlier releases. */
  readonly requestId?: string | undefined;
  /** Absent where nobody traced the call. */
  readonly traceId?: string | undefined;
  /** It happens all the time: kept apart, so that it crowds nothing else out. */
  readonly routine?: true | undefined;
}

export type EventKind = "routine" | "other";

const KEY_DIGITS = 16;

/** The newest come first. */
export const eventKey = (eventId: number): string => `${Number.MAX_SAFE_INTEGER - eventId}`.padStart(KEY_DIGITS, "0");
