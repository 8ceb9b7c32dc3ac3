import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";

/** An action of a caller or of this registry, recorded in the action's own transaction. */
export interface RegistryEvent {
  /** Increases from 1. */
  readonly eventId: number;
  readonly atMs: number;
  /** Role and name of a certificate, or "disk-registry". */
  readonly user: string;
  /** Name of an RPC, or of an action of the registry itself. */
  readonly action: string;
  /** First ids of the changed things of each kind. */
  readonly hostIds: readonly HostId[];
  readonly deviceIds: readonly DeviceId[];
  readonly diskIds: readonly DiskId[];
  /** More things changed than are named here. */
  readonly more?: true | undefined;
  readonly answer: string;
  readonly message: string;
  /** Request id of the call; absent for the registry's own actions, and in events of earlier releases. */
  readonly requestId?: string | undefined;
  /** Absent when the call was not traced. */
  readonly traceId?: string | undefined;
  /** True for a frequent kind of event. These are limited separately, so that they do not evict others. */
  readonly routine?: true | undefined;
}

export type EventKind = "routine" | "other";

const KEY_DIGITS = 16;

/** Returns a key by which the newest events come first. */
export const eventKey = (eventId: number): string => `${Number.MAX_SAFE_INTEGER - eventId}`.padStart(KEY_DIGITS, "0");
