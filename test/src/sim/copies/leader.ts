import type { CopyRecord, DeviceId, DiskId, HostId } from "@diskmesh/domain";

const SILENT_MS = 4_000;

/** Memory of one leader of the registry: nothing of it is durable. */
export class Leader {
  readonly heardAtMs = new Map<HostId, number>();
  readonly registered = new Set<HostId>();
  /** Records of devices that granted a session, by `<session> <device>`. */
  readonly grants = new Map<string, { readonly record: CopyRecord | undefined; readonly atMs: number }>();
  /** Records of devices that were only looked at, by `<session> <device>`. */
  readonly looks = new Map<string, CopyRecord | undefined>();
  /** Session of the last erase that was ordered, by device: a late answer of an earlier one says nothing. */
  readonly erasing = new Map<DeviceId, number>();
  /** Devices that unproven disks wait for. */
  readonly awaited = new Map<DiskId, readonly DeviceId[]>();
  readonly #since = new Map<string, number>();
  readonly #sentAtMs = new Map<string, number>();

  constructor(readonly beganMs: number) {}

  /** Returns the time since which this leader knows of something. */
  sinceMs(what: string, nowMs: number): number {
    const sinceMs = this.#since.get(what) ?? nowMs;
    this.#since.set(what, sinceMs);
    return sinceMs;
  }

  silentForMs(hostId: HostId, nowMs: number): number {
    return nowMs - (this.heardAtMs.get(hostId) ?? this.beganMs);
  }

  isSilent(hostId: HostId, nowMs: number): boolean {
    return !this.heardAtMs.has(hostId) || this.silentForMs(hostId, nowMs) > SILENT_MS;
  }

  /** Returns whether a message may be sent, again after a while. */
  maySend(message: string, nowMs: number, againMs: number): boolean {
    if ((this.#sentAtMs.get(message) ?? Number.NEGATIVE_INFINITY) > nowMs - againMs) return false;
    this.#sentAtMs.set(message, nowMs);
    return true;
  }

  grantOf(
    session: number,
    deviceId: DeviceId,
  ): { readonly record: CopyRecord | undefined; readonly atMs: number } | undefined {
    return this.grants.get(`${session} ${deviceId}`);
  }
}
