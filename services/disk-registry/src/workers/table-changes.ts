import { Changes } from "@diskmesh/service";
import type { StoredChange } from "@diskmesh/tablet";
import { whyNotTold } from "../model/devices/orders.js";
import { disksOn } from "../model/store/runs.js";
import type { Device, Disk, Host, RegistryTables } from "../model/store/schema.js";
import type { RegistryTablet } from "../store/stored-schema.js";

/** Changes between two positions, and the next position. */
export interface Changed {
  readonly keys: readonly string[];
  readonly position: number;
}

/**
 * Keys of the last durable changes, in order. All watchers read this list, each at its own position. A watcher that
 * falls behind the start of the list begins again with a snapshot.
 */
export class TableChanges {
  readonly #max: number;
  readonly #keys: string[] = [];
  /** Position of the first key in the list. */
  #start = 0;
  readonly #changes = new Changes<void>();
  readonly #unwatch: () => void;

  constructor(
    tablet: Pick<RegistryTablet, "watch">,
    maxRemembered: number,
    keysOf: (change: StoredChange) => readonly string[],
    private readonly expandKey: (tables: RegistryTables, key: string) => readonly string[] = (_, key) => [key],
  ) {
    this.#max = maxRemembered;
    this.#unwatch = tablet.watch((changes) => this.touch(changes.flatMap((change) => keysOf(change))));
  }

  /** Position of the next change. */
  get end(): number {
    return this.#start + this.#keys.length;
  }

  /**
   * Returns the changes from the position on, each key once, up to `max`; undefined when they are no longer in the
   * list.
   */
  since(position: number, max: number): Changed | undefined {
    if (position < this.#start || position > this.end) return undefined;
    const first = position - this.#start;
    const keys = this.#keys.slice(first, first + max);
    return { keys: [...new Set(keys)], position: position + keys.length };
  }

  /** Returns the ids that the keys stand for, without duplicates. */
  expand(tables: RegistryTables, keys: readonly string[]): ReadonlySet<string> {
    return new Set(keys.flatMap((key) => this.expandKey(tables, key)));
  }

  /** Resolves once the list has a change at the position or later. */
  async beyond(position: number, signal: AbortSignal): Promise<void> {
    using watch = this.#changes.watch();
    while (this.end <= position) await watch.changed(signal);
  }

  close(): void {
    this.#unwatch();
  }

  /** Adds changes for things whose facts in memory changed. */
  touch(keys: Iterable<string>): void {
    const before = this.#keys.length;
    for (const key of keys) this.#keys.push(key);
    if (this.#keys.length === before) return;
    // Trims in large steps, because moving the remaining keys costs as much as dropping.
    if (this.#keys.length > 2 * this.#max) {
      const dropped = this.#keys.length - this.#max;
      this.#keys.splice(0, dropped);
      this.#start += dropped;
    }
    this.#changes.touch();
  }
}

/** Prefix with a space, which no id contains. */
const ON_HOST = "on host ";

/**
 * Returns the change key of a host's state. It stands for all devices, or disks, whose description depends on that
 * state.
 */
export function onHost(hostId: string): string {
  return `${ON_HOST}${hostId}`;
}

/**
 * Returns the hosts whose description may have changed. A host's description depends on its devices under removal, and
 * on the disks published to it.
 */
export function hostsSeenOtherwise(change: StoredChange): readonly string[] {
  const { table, key, document, previous } = change;
  if (table === "hosts") return [key];
  if (table === "devices") {
    const found = [document, previous?.document] as (Device | null | undefined)[];
    return found.flatMap((device) => (device?.removalRequested ? [device.hostId] : []));
  }
  if (table !== "disks") return [];
  const [now = "", before = ""] = [document, previous?.document].map(
    (disk) => (disk as Disk | null | undefined)?.publication?.hostId,
  );
  return now === before ? [] : [now, before].filter(Boolean);
}

/** Returns the devices whose description may have changed. */
export function devicesSeenOtherwise(change: StoredChange): readonly string[] {
  return change.table === "devices" ? [change.key] : ofHost(change);
}

/** Returns the disks whose description may have changed: a disk's health depends on its devices and their hosts. */
export function disksSeenOtherwise(change: StoredChange): readonly string[] {
  const { table, key, document, previous } = change;
  if (table === "disks") return [key];
  if (table !== "devices") return ofHost(change);
  // Both are missing when the document was created and deleted within one commit.
  const device = (document ?? previous?.document) as Device | undefined;
  return device === undefined ? [] : disksOn([device]);
}

function ofHost({ table, key, document, previous }: StoredChange): readonly string[] {
  if (table !== "hosts") return [];
  const [now, before] = ([document, previous?.document] as (Host | null | undefined)[]).map(
    (host) => host && `${host.state} ${whyNotTold(host)}`,
  );
  return now === before ? [] : [onHost(key)];
}

/** Returns the devices that a key of `devicesSeenOtherwise` stands for. For a host: its devices that await an order. */
export function devicesOf({ devices }: RegistryTables, key: string): string[] {
  if (!key.startsWith(ON_HOST)) return [key];
  return Array.from(devices.by("awaitingOrderByHost", key.slice(ON_HOST.length)), ({ deviceId }) => deviceId);
}

/** Returns the disks that a key of `disksSeenOtherwise` stands for. */
export function disksOf({ devices, disks }: RegistryTables, key: string): string[] {
  if (!key.startsWith(ON_HOST)) return [key];
  const hostId = key.slice(ON_HOST.length);
  const served = Array.from(disks.by("byPublicationHost", hostId), ({ diskId }) => diskId);
  return [...disksOn([...devices.by("usedByHost", hostId)]), ...served];
}
